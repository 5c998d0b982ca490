// `npm start`: serves the app on Node.
import { scheduleEveryMinute } from './schedule.ts'
import { start } from './start.ts'

await start({ schedule: scheduleEveryMinute })
