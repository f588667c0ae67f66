#!/usr/bin/env escript
%% The counterpart of `rudy lab messages`: N processes that send a ping to each other, reply to each ping with a pong, and end after
%% their last pong. `ERL_FLAGS="+S 4:4" escript big.erl N` has four schedulers. It measures its own time, which
%% excludes the start of the emulator and the compiler.
-mode(compile).

main([N]) ->
    Number = list_to_integer(N),
    Main = self(),
    Processes = [spawn_link(fun() -> wait(Main, Number - 1) end) || _ <- lists:seq(1, Number)],
    %% Messages are copied, so the list of processes is sent before the measurement.
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

%% The process is done after its last pong, but must still reply to later pings.
answer(Main, Others, Others, Others) -> Main ! {done, self(), 2 * Others};
answer(Main, Others, Pings, Pongs) ->
    receive
        {ping, From} -> From ! pong, answer(Main, Others, Pings + 1, Pongs);
        pong -> answer(Main, Others, Pings, Pongs + 1)
    end.
