// `slipway drains list`: the drains of the workspace, and what they have sent and dropped.
import type { Declaration } from '../declaration.ts'
import { type Drain, readDrains } from '../drains.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { summary: 'list them, with what they have sent and dropped' }

export async function run(session: Session): Promise<void> {
  const drains: Drain[] = []
  for await (const drain of readDrains(session)) drains.push(drain)
  const columns = {
    name: (one: Drain) => one.name,
    kind: (one: Drain) => one.kind,
    signals: (one: Drain) => one.signals.join(', '),
    status: (one: Drain) => one.state.status,
    sent: (one: Drain) => String(one.state.sent),
    waiting: (one: Drain) => String(one.state.waiting),
    dropped: (one: Drain) => String(one.state.dropped),
    error: (one: Drain) => one.state.error ?? undefined,
    id: (one: Drain) => one.id,
  }
  const none = 'No drains. Create one with: slipway drains create NAME otlp https://otel.example.com:4318'
  session.out.table(drains, columns, none)
}
