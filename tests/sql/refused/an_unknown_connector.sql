CREATE SOURCE s (a STRING) WITH (connector = 'dleta');
