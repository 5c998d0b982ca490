// Runs scheduled work every minute in a process, as the cron trigger of wrangler.toml does on Workers.

const EVERY_MS = 60_000
/** A timer may be early. */
const EARLY_MS = 1000

export type Schedule = {
  /** Nothing starts any more. Resolves once the work in progress has ended. */
  stop(): Promise<void>
}

/**
 * Starts with each minute of the clock, so that the work also runs where no instance lives for a minute. Work that
 * takes longer than a minute is not started twice at once.
 */
export function scheduleEveryMinute(work: () => Promise<unknown>): Schedule {
  let running: Promise<void> | undefined
  let timer = setTimeout(run, untilNextMinute())
  function run(): void {
    timer = setTimeout(run, untilNextMinute())
    running ??= work()
      .then(
        () => {},
        error => console.error(error),
      )
      .finally(() => {
        running = undefined
      })
  }
  return {
    async stop() {
      clearTimeout(timer)
      await running
    },
  }
}

function untilNextMinute(): number {
  const left = EVERY_MS - (Date.now() % EVERY_MS)
  return left < EARLY_MS ? left + EVERY_MS : left
}
