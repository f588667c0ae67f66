module goconntest

go 1.21
