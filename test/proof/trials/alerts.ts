// Alerts: 300 incidents while evaluators are killed; the time from a cause to a channel; the first night of a new user.
// `--part=cause-to-channel` runs one of them.
import { optionOf, runTrial } from '../support/trial.ts'
import { measureCauseToChannel } from './alerts/cause-to-channel.ts'
import { liveFirstNight } from './alerts/first-night.ts'
import { killEvaluators } from './alerts/killed-evaluators.ts'

const PARTS: Record<string, () => Promise<void>> = {
  'killed-evaluators': killEvaluators,
  'cause-to-channel': measureCauseToChannel,
  'first-night': liveFirstNight,
}

await runTrial(async () => {
  const part = optionOf('part')
  for (const [name, run] of Object.entries(PARTS)) if (part === undefined || part === name) await run()
})
