import com.gruelbox.transactionoutbox.Dialect;
import com.gruelbox.transactionoutbox.Instantiator;
import com.gruelbox.transactionoutbox.Persistor;
import com.gruelbox.transactionoutbox.Submitter;
import com.gruelbox.transactionoutbox.ThreadLocalContextTransactionManager;
import com.gruelbox.transactionoutbox.TransactionManager;
import com.gruelbox.transactionoutbox.TransactionOutbox;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/** gruelbox transaction-outbox in its fastest settings; ../README.md has the protocol. */
public final class Adapter {
  private static final String ORDER = "INSERT INTO orders (account_id, amount, note) VALUES (?, ?, ?)";
  private static final String NOTE = "a note of some length, as orders have them";
  private static final String PAYLOAD = System.getenv("PEER_PAYLOAD");
  private static final int WARM = 5;
  private static final int WARM_LATENCIES = 25;
  private static final int PAUSE_MS = 3;
  private static final int PAGE = 1_000;
  private static final int THREADS = 8;
  private static final int DUE_MS = 1_000;
  private static final int EMPTY_MS = 20;
  private static final int FLUSHED = 4_096;

  private static final AtomicLong handled = new AtomicLong();
  private static final long wanted = Long.parseLong(System.getenv().getOrDefault("PEER_JOBS", "0"));
  private static final LinkedBlockingQueue<Long> calls = new LinkedBlockingQueue<>(1);

  private final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
  private final ThreadLocalContextTransactionManager transactions;
  private TransactionOutbox outbox;

  /** The target of every job. */
  public static class Job {
    public void handle(String payload) {
      long now = System.nanoTime();
      if (handled.incrementAndGet() == wanted) {
        tell("handled");
      }
      calls.offer(now);
    }
  }

  private Adapter() {
    URI url = URI.create(System.getenv("PEER_URL"));
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl("jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath());
    config.setUsername(url.getUserInfo());
    config.setMaximumPoolSize(40 + THREADS);
    config.setMinimumIdle(1);
    transactions = TransactionManager.fromDataSource(new HikariDataSource(config));
  }

  private static void tell(String line) {
    synchronized (System.out) {
      System.out.println(line);
      System.out.flush();
    }
  }

  private void hear(String word) throws Exception {
    if (!word.equals(input.readLine())) {
      throw new IllegalStateException("expected " + word);
    }
  }

  private TransactionOutbox open(Submitter submitter, Duration frequency) {
    return TransactionOutbox.builder()
        .transactionManager(transactions)
        .persistor(Persistor.forDialect(Dialect.POSTGRESQL_9))
        .instantiator(Instantiator.using(type -> new Job()))
        .submitter(submitter)
        .flushBatchSize(FLUSHED)
        .attemptFrequency(frequency)
        .build();
  }

  /** Adds jobs that nobody submits, and waits until they are due, so that a flush finds them. */
  private void fill(int jobs) throws Exception {
    outbox = open((entry, local) -> {}, Duration.ofMillis(DUE_MS));
    for (int first = 0; first < jobs; first += PAGE) {
      int page = Math.min(PAGE, jobs - first);
      transactions.inTransaction(
          () -> {
            for (int job = 0; job < page; job++) {
              outbox.schedule(Job.class).handle(PAYLOAD);
            }
          });
    }
    Thread.sleep(2 * DUE_MS);
  }

  private void start() {
    // A flush waits while the threads have enough to do.
    ThreadPoolExecutor executor =
        new ThreadPoolExecutor(
            THREADS, THREADS, 1, TimeUnit.MINUTES, new LinkedBlockingQueue<>(FLUSHED),
            new ThreadPoolExecutor.CallerRunsPolicy());
    outbox = open(Submitter.withExecutor(executor), Duration.ofMinutes(2));
  }

  private void flush() {
    Thread flusher =
        new Thread(
            () -> {
              while (handled.get() < wanted) {
                if (!outbox.flush()) {
                  LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(EMPTY_MS));
                }
              }
            });
    flusher.setDaemon(true);
    flusher.start();
  }

  private void transact(long account, boolean business, boolean job) {
    transactions.inTransactionThrows(
        transaction -> {
          if (business) {
            try (var statement = transaction.connection().prepareStatement(ORDER)) {
              statement.setLong(1, account);
              statement.setLong(2, 1);
              statement.setString(3, NOTE);
              statement.executeUpdate();
            } catch (SQLException error) {
              throw new IllegalStateException(error);
            }
          }
          if (job) {
            outbox.schedule(Job.class).handle(PAYLOAD);
          }
        });
  }

  private interface Repeat {
    long run(long account) throws Exception;
  }

  private static long each(int writers, Repeat repeat) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(writers);
    List<Future<Long>> all = new ArrayList<>();
    for (int writer = 0; writer < writers; writer++) {
      long account = writer;
      all.add(threads.submit(() -> repeat.run(account)));
    }
    long sum = 0;
    for (Future<Long> done : all) {
      sum += done.get();
    }
    threads.shutdown();
    return sum;
  }

  private void write(int writers, int millis, boolean job) throws Exception {
    each(
        writers,
        account -> {
          for (int number = 0; number < WARM; number++) {
            transact(account, true, job);
          }
          return WARM;
        });
    long began = System.nanoTime();
    long end = began + TimeUnit.MILLISECONDS.toNanos(millis);
    long count =
        each(
            writers,
            account -> {
              long own = 0;
              while (System.nanoTime() < end) {
                transact(account, true, job);
                own++;
              }
              return own;
            });
    tell("committed " + count + " " + (System.nanoTime() - began) / 1_000);
  }

  private void latencies(int jobs) throws Exception {
    for (int number = 0; number < jobs + WARM_LATENCIES; number++) {
      transact(0, false, true);
      long committed = System.nanoTime();
      long called = calls.take();
      if (number >= WARM_LATENCIES) {
        tell("latency " + Math.max(0, (called - committed) / 1_000));
      }
      Thread.sleep(PAUSE_MS);
    }
    tell("done");
  }

  private void run(String[] arguments) throws Exception {
    String scenario = arguments[0];
    if (scenario.equals("fill")) {
      fill(Integer.parseInt(arguments[1]));
      return;
    }
    transact(0, false, false);
    start();
    tell("ready");
    hear("go");
    switch (scenario) {
      case "drain" -> flush();
      case "latency" -> latencies(Integer.parseInt(arguments[1]));
      case "end-to-end", "business" ->
          write(
              Integer.parseInt(arguments[1]),
              Integer.parseInt(arguments[2]),
              scenario.equals("end-to-end"));
      default -> throw new IllegalArgumentException("unknown scenario " + scenario);
    }
    hear("stop");
  }

  public static void main(String[] arguments) throws Exception {
    new Adapter().run(arguments);
    System.exit(0);
  }
}
