// An evaluator that judges the answers of an application by its traces: a rule asks a model, which reads what they say.
import { setTimeout as delay } from 'node:timers/promises'
import { startModelServer } from '../../../support/model-server.ts'
import { until } from '../../support/two-hosts.ts'
import type { Installation } from '../whole-application/installation.ts'

/** The key of its feedback. */
export const SCORE = 'helpful'
const SCHEMA = { title: 'helpfulness', type: 'object', properties: { [SCORE]: { type: 'boolean' } }, required: [SCORE] }

export async function startJudge({ api }: Installation, project: string) {
  const models = await startModelServer()
  models.answer = ({ prompt }) => ({ [SCORE]: prompt.includes('a good answer') })
  const send = async (path: string, body: object) => {
    const answer = await api('POST', path, body)
    if (answer.status >= 300) throw new Error(`${path}: ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  const { id: model } = await send('/v1/model-configurations', {
    name: 'judge',
    provider: 'openai_compatible',
    base_url: models.url,
    model: 'small-1',
    auth_type: 'none',
  })
  const session_id = await until('the project has traces', async () => {
    const { body } = await api('GET', `/sessions?name=${project}`)
    return (body as unknown as { id: string }[])[0]?.id
  })
  const prompt = [
    ['system', 'You judge answers.'],
    ['user', '{{output.answer}}'],
  ]
  const structured = { playground_settings_id: model, prompt, template_format: 'mustache', schema: SCHEMA }
  const { id: rule } = await send('/runs/rules', {
    display_name: 'Helpful',
    sampling_rate: 1,
    session_id,
    evaluators: [{ structured }],
  })
  let isOn = true
  // Rules are evaluated once a minute, and sooner when they are triggered.
  const triggering = (async () => {
    for (; isOn; await delay(3_000)) await api('POST', `/runs/rules/${rule}/trigger`)
  })()
  return {
    async end() {
      isOn = false
      await triggering
      await models.close()
    },
  }
}
