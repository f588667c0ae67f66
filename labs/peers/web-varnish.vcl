# The cached workload of the plan `peers`. The built-in rules of Varnish are its best for a response with max-age.
# Source: varnish-cache.org/docs: the storage in memory (malloc), in the command of the plan.
vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "{upstream.port}"; }
