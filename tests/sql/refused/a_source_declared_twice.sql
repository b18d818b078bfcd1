CREATE SOURCE sales (a STRING) WITH (connector = 'memory');
