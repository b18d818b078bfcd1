CREATE SOURCE s (a STRING) WITH (connector = 'delta', paht = 'x');
