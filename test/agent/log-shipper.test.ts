// What of a log is sent on: its lines, and nothing that stood beside the ids of whose they are.
import { expect, test } from 'vitest'
import { LogShipper } from '../../src/agent/log-shipper.ts'
import type { LogBatch } from '../../src/sync/schema.ts'
import { unit } from '../support/engine.ts'

test('whoever logs with a whole unit sends no secret of it', async () => {
  const sent: LogBatch[] = []
  const logs = async (batch: LogBatch) => {
    sent.push(batch)
    return { next: batch.from + batch.lines.length }
  }
  const shipper = new LogShipper({ logs }, () => ({ agent_id: 'agent-1', fence: 1 }))
  const of = unit({ deployment_id: 'deployment', revision_id: 'revision' }, { secrets: { TOKEN: 'hush' } })
  shipper.add(of, 'deploy', 'started', 'INFO')
  await shipper.flush()
  expect(Object.keys(sent[0]!).sort()).toEqual(
    ['agent_id', 'deployment_id', 'fence', 'from', 'kind', 'lines', 'revision_id', 'stream'].sort(),
  )
})
