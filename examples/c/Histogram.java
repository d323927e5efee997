// Histogram.java: histogram.c in Java, by histogram_jni.c.
//
//     javac -d . examples/c/Histogram.java && java Histogram
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

public final class Histogram {
    /** Adds noise to the values, or leaves zeros. A null key is a fresh one; others are for tests. */
    static native int release(byte[] key, boolean gaussian, long num, long den, long[] values);

    static long hash(long[] values) {
        long state = 0xcbf29ce484222325L;
        for (long value : values) {
            for (int i = 0; i < 64; i += 8) {
                state = (state ^ (value >>> i & 255)) * 0x100000001b3L;
            }
        }
        return state;
    }

    static boolean differs(String line) {
        byte[] key = Arrays.copyOf(new byte[] {1, 2, 3}, 32);
        String[] word = line.split(" ");
        long[] values = new long[Integer.parseInt(word[3])];
        int status = release(key, word[0].equals("gaussian"), Long.parseUnsignedLong(word[1]),
                Long.parseUnsignedLong(word[2]), values);
        return status != 0 || hash(values) != Long.parseUnsignedLong(word[4], 16);
    }

    public static void main(String[] argument) throws Exception {
        System.load(Path.of("libhistogram_jni.so").toAbsolutePath().toString());
        long[] counts = {120, 7, 0, 31};
        if (release(null, false, 1, 1, counts) != 0) {
            System.exit(1);
        }
        System.out.println(Arrays.toString(counts));
        System.out.println("a scale of 0: status " + release(null, false, 0, 1, counts));
        if (argument.length > 0) {
            var lines = Files.readAllLines(Path.of(argument[0]));
            long differ = lines.stream().filter(Histogram::differs).count();
            System.out.println(lines.size() + " vectors, " + differ + " differ");
            System.exit(differ == 0 && !lines.isEmpty() ? 0 : 1);
        }
    }
}
