#!/usr/bin/env escript
%%! +P 1000000 +Q 65536
%% Streams: the Erlang server of the field report of 2011, in current Erlang. A process for each connection sends a chunk per
%% second, without end: `escript streams.escript PORT`.
-mode(compile).

main([Port]) ->
    Options = [binary, {packet, http_bin}, {active, false}, {reuseaddr, true}, {ip, {127, 0, 0, 1}}, {backlog, 4096}],
    {ok, Listener} = gen_tcp:listen(list_to_integer(Port), Options),
    accept(Listener).

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Handler = spawn(fun() -> receive owner -> greet(Socket) end end),
    case gen_tcp:controlling_process(Socket, Handler) of
        ok -> Handler ! owner;
        {error, _} -> exit(Handler, kill), gen_tcp:close(Socket)
    end,
    accept(Listener).

greet(Socket) ->
    case read_head(Socket, none) of
        {ok, <<"/test/", _/binary>> = Id} ->
            Head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
            Welcome = chunk(["Goconntest welcomes you! Your Id: ", Id, "\n"]),
            %% From now on, only the close of the connection matters.
            ok = inet:setopts(Socket, [{packet, raw}, {active, once}]),
            send(Socket, [Head, Welcome], Id, 1, erlang:monotonic_time(millisecond) + 1000);
        {ok, _} ->
            gen_tcp:send(Socket, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
            gen_tcp:close(Socket);
        error ->
            gen_tcp:close(Socket)
    end.

read_head(Socket, Path) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_request, 'GET', {abs_path, Asked}, _}} -> read_head(Socket, Asked);
        {ok, {http_header, _, _, _, _}} -> read_head(Socket, Path);
        {ok, http_eoh} when Path =/= none -> {ok, Path};
        _ -> error
    end.

send(Socket, Data, Id, Number, Due) ->
    case gen_tcp:send(Socket, Data) of
        ok -> wait(Socket, Id, Number, Due);
        {error, _} -> gen_tcp:close(Socket)
    end.

wait(Socket, Id, Number, Due) ->
    receive
        {tcp_closed, Socket} -> ok;
        {tcp_error, Socket, _} -> gen_tcp:close(Socket);
        {tcp, Socket, _} ->
            inet:setopts(Socket, [{active, once}]),
            wait(Socket, Id, Number, Due)
    after max(0, Due - erlang:monotonic_time(millisecond)) ->
        Text = ["Chunk ", integer_to_binary(Number), " for id ", Id, "\n"],
        send(Socket, chunk(Text), Id, Number + 1, Due + 1000)
    end.

chunk(Text) ->
    [integer_to_binary(iolist_size(Text), 16), "\r\n", Text, "\r\n"].
