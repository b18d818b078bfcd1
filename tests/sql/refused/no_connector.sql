CREATE SOURCE s (a STRING) WITH (path = 'x');
