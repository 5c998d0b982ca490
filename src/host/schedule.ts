// Runs scheduled work every minute in a process, as the cron trigger of wrangler.toml does on Workers, and the looks of
// alerts between the minutes.

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

const LOOK_MS = 10_000
/** The first look of a minute is part of the scheduled work. */
const LOOKS_A_MINUTE = 5

/** Looks every ten seconds, for what cannot wait for the minute. A look that takes longer is not started twice. */
export function scheduleLooks(look: () => Promise<unknown>): Schedule {
  let running: Promise<void> | undefined
  const timer = setInterval(() => {
    running ??= look()
      .then(
        () => {},
        error => console.error(error),
      )
      .finally(() => {
        running = undefined
      })
  }, LOOK_MS)
  return {
    async stop() {
      clearInterval(timer)
      await running
    },
  }
}

/** The looks of one minute, where a host has no process between the minutes. */
export async function lookForAMinute(look: () => Promise<unknown>): Promise<void> {
  for (let i = 0; i < LOOKS_A_MINUTE; i++) {
    await new Promise(resolve => setTimeout(resolve, LOOK_MS))
    await look()
  }
}

function untilNextMinute(): number {
  const left = EVERY_MS - (Date.now() % EVERY_MS)
  return left < EARLY_MS ? left + EVERY_MS : left
}
