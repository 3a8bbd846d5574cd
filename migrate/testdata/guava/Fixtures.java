import com.google.common.hash.BloomFilter;
import com.google.common.hash.Funnel;
import com.google.common.hash.Funnels;
import com.google.common.hash.PrimitiveSink;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.LongFunction;

/** Writes filters and their answers by Guava itself. README.md, one directory up, has the command and explains the files. */
final class Fixtures {
  private static PrintStream answers;
  private static Method create;
  private static Object[] strategies;

  public static void main(String[] args) throws Exception {
    // The strategy is the default one, ordinal 1, in every public method. Only this one, which is
    // for Guava's own tests, makes filters of the other.
    Class<?> strategy = Class.forName("com.google.common.hash.BloomFilter$Strategy");
    create = BloomFilter.class.getDeclaredMethod("create", Funnel.class, long.class, double.class, strategy);
    create.setAccessible(true);
    strategies = Class.forName("com.google.common.hash.BloomFilterStrategies").getEnumConstants();

    answers = new PrintStream("answers.json", "UTF-8");
    answers.print("[");
    for (int s = 0; s < 2; s++) {
      String suffix = s == 0 ? "-32" : "-64";
      write("empty" + suffix, s, "bytes", 100, 0.01, 0, 1000);
      write("one-word" + suffix, s, "bytes", 1, 0.5, 1, 1000);
      write("one-key" + suffix, s, "bytes", 10, 0.03, 1, 2000);
      write("two-keys" + suffix, s, "bytes", 10, 0.03, 2, 2000);
      write("bytes" + suffix, s, "bytes", 1000, 0.03, 1000, 2000);
      write("utf8" + suffix, s, "utf8", 500, 0.03, 500, 2000);
      write("chars" + suffix, s, "chars", 500, 0.03, 500, 2000);
      write("long" + suffix, s, "long", 500, 0.03, 500, 2000);
      write("int" + suffix, s, "int", 500, 0.03, 500, 2000);
      write("sequence" + suffix, s, "sequence", 500, 0.03, 500, 2000);
      write("composite" + suffix, s, "composite", 500, 0.03, 500, 2000);
      write("past-capacity" + suffix, s, "bytes", 200, 0.01, 500, 1000);
      write("199-hashes" + suffix, s, "bytes", 10, 1e-60, 12, 1000);
    }
    answers.print("\n]\n");
    answers.close();
  }

  private static void write(String name, int strategy, String funnel, long capacity, double rate, int present, int absent)
      throws Exception {
    switch (funnel) {
      case "bytes" -> write(name, strategy, funnel, Funnels.byteArrayFunnel(), Fixtures::bytes, capacity, rate, present, absent);
      case "utf8" -> write(name, strategy, funnel, Funnels.stringFunnel(StandardCharsets.UTF_8), Fixtures::text, capacity, rate, present, absent);
      case "chars" -> write(name, strategy, funnel, Funnels.unencodedCharsFunnel(), Fixtures::text, capacity, rate, present, absent);
      case "long" -> write(name, strategy, funnel, Funnels.longFunnel(), i -> i * 0x9e3779b97f4a7c15L, capacity, rate, present, absent);
      case "int" -> write(name, strategy, funnel, Funnels.integerFunnel(), i -> (int) (i * 0x9e3779b1L), capacity, rate, present, absent);
      case "sequence" -> write(name, strategy, funnel, Funnels.sequentialFunnel(Funnels.longFunnel()), i -> List.of(i, -i), capacity, rate, present, absent);
      case "composite" -> write(name, strategy, funnel, Fixtures::putAll, i -> i, capacity, rate, present, absent);
      default -> throw new IllegalArgumentException(funnel);
    }
  }

  private static <T, K extends T> void write(String name, int strategy, String funnelName, Funnel<T> funnel, LongFunction<K> key,
      long capacity, double rate, int present, int absent) throws Exception {
    @SuppressWarnings("unchecked")
    BloomFilter<T> made = (BloomFilter<T>) create.invoke(null, funnel, capacity, rate, strategies[strategy]);
    for (long i = 0; i < present; i++) {
      made.put(key.apply(i));
    }
    var out = new ByteArrayOutputStream();
    made.writeTo(out);
    Files.write(Path.of(name + ".bin"), out.toByteArray());

    // The answers are those of the filter as Guava reads it back.
    BloomFilter<T> read = BloomFilter.readFrom(new ByteArrayInputStream(out.toByteArray()), funnel);
    if (!read.equals(made)) {
      throw new AssertionError(name);
    }
    for (long i = 0; i < present; i++) {
      if (!read.mightContain(key.apply(i))) {
        throw new AssertionError(name + " lost key " + i);
      }
    }
    var positive = new StringBuilder();
    for (long i = present; i < present + absent; i++) {
      if (read.mightContain(key.apply(i))) {
        positive.append(positive.isEmpty() ? "" : ",").append(i);
      }
    }
    answers.printf("%s\n {\"name\":\"%s\",\"keys\":\"%s\",\"strategy\":\"%s\",\"present\":%d,\"absent\":%d,\"count\":%d,\"rate\":%s,\n  \"positive\":[%s]}",
        name.equals("empty-32") ? "" : ",", name, funnelName, strategies[strategy], present, absent,
        read.approximateElementCount(), read.expectedFpp(), positive);
  }

  private static void putAll(long i, PrimitiveSink into) {
    into.putByte((byte) i).putShort((short) (i * 7)).putChar((char) (i * 11)).putInt((int) i).putLong(-i);
    into.putFloat(i / 3f).putDouble(i / 3d).putBoolean(i % 3 == 0).putBytes(bytes(i));
    into.putUnencodedChars(text(i)).putString(text(i), StandardCharsets.UTF_8).putString(text(i), StandardCharsets.UTF_16BE);
  }

  private static byte[] bytes(long i) {
    if (i == 0) {
      return new byte[0];
    }
    byte[] key = new byte[4 + (int) (i % 37)];
    for (int j = 0; j < key.length; j++) {
      key[j] = (byte) (j < 4 ? i >> 8 * j : 131 * j + 7);
    }
    return key;
  }

  private static String text(long i) {
    return (i % 2 == 0 ? "user:" : "\u043a\u043b\u044e\u0447 \u65e5\u672c \ud83d\ude00 ") + i;
  }
}
