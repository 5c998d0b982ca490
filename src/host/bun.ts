// `npm run start:bun`: serves the app on Bun.
import { writeToEnd } from './log-writer.ts'
import { requireVersion } from './runtime-version.ts'
import { scheduleEveryMinute } from './schedule.ts'
import { start } from './start.ts'

declare const Bun: { version: string }

/** Bun's `process.stdout` loses what a slow reader has not taken when the process ends. Node's waits for the reader. */
const output = { fd: 1, write: (text: string) => writeToEnd(1, text) }

// Before 1.4, `node:https` checks a certificate against the pinned address, and `node:http` waits for headers forever.
requireVersion('Bun', Bun.version, [1, 4])
await start({ schedule: scheduleEveryMinute, output })
