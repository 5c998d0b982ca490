// `slipway channels list`: the channels of the workspace and one's own, and their health.
import { type Channel, describeTarget, readChannels } from '../channels.ts'
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = { summary: 'list them, and your own' }

export async function run(session: Session): Promise<void> {
  const channels: Channel[] = []
  for await (const channel of readChannels(session)) channels.push(channel)
  const columns = {
    name: (one: Channel) => one.name,
    kind: (one: Channel) => one.target.kind,
    target: describeTarget,
    deploys: (one: Channel) => one.deploys,
    default: (one: Channel) => (one.is_default ? 'yes' : undefined),
    health: ({ enabled, health }: Channel) => (enabled || health.status === 'disabled' ? health.status : 'paused'),
    id: (one: Channel) => one.id,
  }
  session.out.table(channels, columns, 'No channels. Create one with: slipway channels create NAME --email ADDRESS')
}
