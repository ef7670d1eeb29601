// Threads, so many turns of two, that read classes of an archive through a loader of their own,
// call each, and deflate and inflate buffers outside the heap. Prints sums.
import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Churn {
    static final AtomicLong sum = new AtomicLong();

    static void work(URL archive, int seed) {
        try (URLClassLoader loader = new URLClassLoader(new URL[] {archive}, null)) {
            for (int at = 0; at < 20; at++) {
                Class<?> one = loader.loadClass("C" + (at + seed) % 20);
                sum.addAndGet((Long) one.getMethod("sum", int.class).invoke(null, 100));
            }
            for (int turn = 0; turn < 40; turn++) {
                ByteBuffer in = ByteBuffer.allocateDirect(64 * 1024 + 512 * (turn + seed));
                for (int at = 0; in.remaining() >= 4; at++) in.putInt(at * (seed + 1) / 7);
                in.flip();
                int length = in.remaining();
                CRC32 before = new CRC32();
                before.update(in.duplicate());
                ByteBuffer packed = ByteBuffer.allocateDirect(2 * length);
                Deflater deflater = new Deflater(1 + turn % 6);
                deflater.setInput(in);
                deflater.finish();
                deflater.deflate(packed);
                deflater.end();
                packed.flip();
                ByteBuffer back = ByteBuffer.allocateDirect(length);
                Inflater inflater = new Inflater();
                inflater.setInput(packed);
                inflater.inflate(back);
                inflater.end();
                back.flip();
                CRC32 after = new CRC32();
                after.update(back);
                if (after.getValue() != before.getValue()) throw new Exception("zlib");
                sum.addAndGet(after.getValue() & 0xffff);
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        URL archive = new File(arguments[0]).toURI().toURL();
        for (int turn = 0; turn < Integer.parseInt(arguments[1]); turn++) {
            int seed = turn;
            Thread other = new Thread(() -> work(archive, seed));
            other.start();
            work(archive, seed + 1);
            other.join();
        }
        System.out.println(sum.get());
    }
}
