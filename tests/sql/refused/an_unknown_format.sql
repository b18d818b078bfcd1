CREATE SOURCE s (a STRING) WITH (connector = 'files', path = 'x', format = 'jsno');
