"""A gRPC server, and a client that calls it: unary, streams in both directions, cancellation, failure."""

import sys, threading, time
from concurrent import futures
import grpc

def unary(request, context):
    context.set_trailing_metadata((('x-length', str(len(request))),))
    return request * 2
def count(request, context):
    for number in range(int(request)):
        yield str(number).encode()
def total(requests, context):
    return str(sum(len(request) for request in requests)).encode()
def echo(requests, context):
    for request in requests:
        yield request
cancelled = threading.Event()
def endless(request, context):
    context.add_callback(cancelled.set)
    while context.is_active():
        yield b'x'
        time.sleep(0.01)
def was_cancelled(request, context):
    return str(cancelled.wait(10)).encode()
def fails(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, 'no such thing')

class Handlers(grpc.GenericRpcHandler):
    def service(self, details):
        return {
            '/test/unary': grpc.unary_unary_rpc_method_handler(unary),
            '/test/count': grpc.unary_stream_rpc_method_handler(count),
            '/test/total': grpc.stream_unary_rpc_method_handler(total),
            '/test/echo': grpc.stream_stream_rpc_method_handler(echo),
            '/test/endless': grpc.unary_stream_rpc_method_handler(endless),
            '/test/was_cancelled': grpc.unary_unary_rpc_method_handler(was_cancelled),
            '/test/fails': grpc.unary_unary_rpc_method_handler(fails),
        }.get(details.method)

def serve(address):
    # The test has reserved the port, with SO_REUSEADDR only.
    options = (('grpc.so_reuseport', 0),)
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=(Handlers(),), options=options)
    server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()

def call(address):
    channel = grpc.insecure_channel(address)
    response, result = channel.unary_unary('/test/unary').with_call(b'ab')
    assert response == b'abab' and ('x-length', '2') in result.trailing_metadata(), result.trailing_metadata()
    large = b'x' * 1_000_000
    assert channel.unary_unary('/test/unary')(large) == large * 2
    assert list(channel.unary_stream('/test/count')(b'100')) == [str(n).encode() for n in range(100)]
    assert channel.stream_unary('/test/total')(iter([b'a' * 1000] * 100)) == b'100000'
    # Each message comes back before the next one is sent.
    back = threading.Semaphore(1)
    def messages():
        for number in range(100):
            assert back.acquire(timeout=10)
            yield str(number).encode()
    for number, message in enumerate(channel.stream_stream('/test/echo')(messages())):
        assert message == str(number).encode()
        back.release()
    endless = channel.unary_stream('/test/endless')(b'')
    assert next(endless) == b'x'
    endless.cancel()
    assert channel.unary_unary('/test/was_cancelled')(b'') == b'True'
    try:
        channel.unary_unary('/test/fails')(b'')
        raise AssertionError('it must fail')
    except grpc.RpcError as error:
        assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, 'no such thing')
    print('passed')

{'serve': serve, 'call': call}[sys.argv[1]](sys.argv[2])
