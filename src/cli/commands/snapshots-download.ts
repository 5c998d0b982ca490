// `slipway snapshots download`: writes a snapshot as a tar, through the connection of its agent.
import { PassThrough } from 'node:stream'
import { channels, encodeFrame } from '../../protocol/tunnel-frames.ts'
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { writeFile } from '../output-file.ts'
import type { Session } from '../session.ts'
import { describeBytes } from '../snapshots.ts'
import { openTunnel } from '../tunnel.ts'

export const declaration: Declaration = {
  arguments: '<snapshot> <file>',
  summary: 'download one as a tar',
  description: 'Through the connection of the agent, as `slipway connect` does. The deployment must serve.',
}

const STREAM = 1

export async function run(session: Session, _: object, [snapshot_id, file]: [string, string]): Promise<void> {
  const { client, out, signal } = session
  const { deployment_id } = await client.call('GET /v2/snapshots/{snapshot_id}', { params: { snapshot_id }, signal })
  const { url } = await client.call('POST /v2/deployments/{deployment_id}/forwards', {
    params: { deployment_id },
    body: { snapshot_id },
    signal,
  })
  const received = new PassThrough()
  const onReset = (_: number, reason: string) => {
    if (!received.writableEnded) received.destroy(cutOff(reason))
  }
  const { link, ended } = await openTunnel(url, { onReset })
  ended.catch(error => received.destroy(error))
  try {
    link.writeTo(received, STREAM)
    link.send(encodeFrame(channels.open, undefined, STREAM))
    const bytes = await writeFile(file, received, sofar => out.progress(`${describeBytes(sofar)} …`))
    out.progress('')
    out.emit({ type: 'snapshot', id: snapshot_id, file, bytes }, () => `${file} has ${describeBytes(bytes)}.`)
  } finally {
    link.close()
  }
}

const cutOff = (reason: string) =>
  new CommandFailure(EXIT.failed, 'connection_lost', reason || 'The download was cut off. Start it again.')
