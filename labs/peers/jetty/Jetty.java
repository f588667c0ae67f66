import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/**
 * A Jetty with many worker threads. Its acceptor waits for connections, or polls for them without a pause, as in a field report of
 * 2010.
 */
public final class Jetty {
    public static void main(String[] arguments) throws Exception {
        boolean spins = arguments[0].equals("spinning");
        int workers = Integer.parseInt(arguments[2]);
        // All workers exist from the start, as in the report.
        Server server = new Server(new QueuedThreadPool(workers, workers));
        // One acceptor, one selector.
        ServerConnector connector = spins ? new Spinning(server) : new ServerConnector(server, 1, 1);
        connector.setHost("127.0.0.1");
        connector.setPort(Integer.parseInt(arguments[1]));
        server.addConnector(connector);
        server.setHandler(new Handler.Abstract() {
            @Override
            public boolean handle(Request request, Response response, Callback callback) {
                response.write(true, StandardCharsets.US_ASCII.encode("hello\n"), callback);
                return true;
            }
        });
        server.start();
        System.out.println("ready");
        server.join();
    }

    /** The fault: the listening socket does not block, so accept() returns null at once, and the acceptor calls it again. */
    static final class Spinning extends ServerConnector {
        Spinning(Server server) {
            super(server, 1, 1);
        }

        @Override
        public void open() throws IOException {
            super.open();
            ((ServerSocketChannel)getTransport()).configureBlocking(false);
        }

        @Override
        public void accept(int acceptor) throws IOException {
            SocketChannel channel = ((ServerSocketChannel)getTransport()).accept();
            if (channel != null) {
                channel.configureBlocking(false);
                getSelectorManager().accept(channel);
            }
        }
    }
}
