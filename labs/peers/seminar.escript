#!/usr/bin/env escript
%% The three servers of the seminar report, rewritten from its description in current Erlang: `escript seminar.escript MODEL PORT BACKLOG`.
%% Each responds to GET /delay with a string after 40 ms, to other paths with 404, to other methods with 501, and then closes.
%%
%% MODEL is the concurrency model:
%%   serial       accept, receive, respond, close, next
%%   spawn        a process for each connection, which blocks in receive
%%   active_once  a process for each connection, which gets received data as messages, one at a time
%%
%% BACKLOG is the listen backlog; 5 is Erlang's default, as in the report.
-mode(compile).

-define(DELAY_MS, 40).
-define(REQUEST_BYTES_MAX, 8192).

main([Model, Port, Backlog]) ->
    Options = [binary, {packet, raw}, {active, false}, {reuseaddr, true}, {ip, {127, 0, 0, 1}}],
    {ok, Listener} = gen_tcp:listen(list_to_integer(Port), [{backlog, list_to_integer(Backlog)} | Options]),
    accept(list_to_existing_atom(Model), Listener).

accept(Model, Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    carry(Model, Socket),
    accept(Model, Listener).

carry(serial, Socket) ->
    serve(Socket, <<>>);
carry(spawn, Socket) ->
    hand_over(Socket, spawn(fun() -> own(fun() -> serve(Socket, <<>>) end) end));
carry(active_once, Socket) ->
    hand_over(Socket, spawn(fun() -> own(fun() -> serve_messages(Socket, <<>>) end) end)).

%% A handler waits for a message that it owns its socket; otherwise it would miss data that the acceptor receives.
hand_over(Socket, Handler) ->
    case gen_tcp:controlling_process(Socket, Handler) of
        ok -> Handler ! owner;
        {error, _} -> exit(Handler, kill), gen_tcp:close(Socket)
    end.

own(Handle) ->
    receive owner -> Handle() end.

serve(Socket, Before) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Data} -> continue(Socket, <<Before/binary, Data/binary>>, fun serve/2);
        {error, _} -> gen_tcp:close(Socket)
    end.

serve_messages(Socket, Before) ->
    inet:setopts(Socket, [{active, once}]),
    receive
        {tcp, Socket, Data} -> continue(Socket, <<Before/binary, Data/binary>>, fun serve_messages/2);
        {tcp_closed, Socket} -> ok;
        {tcp_error, Socket, _} -> gen_tcp:close(Socket)
    end.

%% Responds if the head is complete, otherwise continues reading.
continue(Socket, Received, Read) ->
    case binary:match(Received, <<"\r\n\r\n">>) of
        nomatch when byte_size(Received) > ?REQUEST_BYTES_MAX -> gen_tcp:close(Socket);
        nomatch -> Read(Socket, Received);
        _ ->
            gen_tcp:send(Socket, answer(binary:split(Received, <<" ">>, [global]))),
            gen_tcp:close(Socket)
    end.

answer([<<"GET">>, <<"/delay">> | _]) ->
    timer:sleep(?DELAY_MS),
    response(<<"200 OK">>, <<"Rudy waited 40 ms.\n">>);
answer([<<"GET">> | _]) -> response(<<"404 Not Found">>, <<"Not found.\n">>);
answer(_) -> response(<<"501 Not Implemented">>, <<"Only GET.\n">>).

response(Status, Body) ->
    Length = integer_to_binary(byte_size(Body)),
    ["HTTP/1.1 ", Status, "\r\nContent-Type: text/plain\r\nContent-Length: ", Length, "\r\nConnection: close\r\n\r\n", Body].
