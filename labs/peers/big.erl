#!/usr/bin/env escript
%% The peer for `rudy lab messages`: N processes that each ping every other one, answer each ping with a pong, and are done with
%% their last pong. `ERL_FLAGS="+S 4:4" escript big.erl N` has four schedulers. It times itself, so that the start of the
%% emulator and the compiler are not in it.
-mode(compile).

main([N]) ->
    Number = list_to_integer(N),
    Main = self(),
    Processes = [spawn_link(fun() -> wait(Main, Number - 1) end) || _ <- lists:seq(1, Number)],
    %% A message is copied, so each knows the others before the time begins.
    [Process ! {others, lists:delete(Process, Processes)} || Process <- Processes],
    [receive {ready, Process} -> ok end || Process <- Processes],
    {Cpu, _} = statistics(runtime),
    Begun = erlang:monotonic_time(),
    [Process ! 'begin' || Process <- Processes],
    Messages = lists:sum([receive {done, Process, Received} -> Received end || Process <- Processes]),
    Time = erlang:convert_time_unit(erlang:monotonic_time() - Begun, native, nanosecond),
    {CpuAfter, _} = statistics(runtime),
    io:format("time_s ~.6f~ncpu_s ~.3f~nmessages ~b~nns_per_message ~.1f~n",
              [Time / 1.0e9, (CpuAfter - Cpu) / 1.0e3, Messages, Time / Messages]).

wait(Main, Others) ->
    receive
        {others, Processes} ->
            Main ! {ready, self()},
            receive 'begin' -> ok end,
            [Process ! {ping, self()} || Process <- Processes],
            answer(Main, Others, 0, 0)
    end.

%% It is done with its last pong, and still answers who pings it later than that: they would wait for ever.
answer(Main, Others, Others, Others) -> Main ! {done, self(), 2 * Others};
answer(Main, Others, Pings, Pongs) ->
    receive
        {ping, From} -> From ! pong, answer(Main, Others, Pings + 1, Pongs);
        pong -> answer(Main, Others, Pings, Pongs + 1)
    end.
