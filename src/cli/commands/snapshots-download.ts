// `slipway snapshots download`: writes a snapshot as a tar, through the connection of its agent.
import { PassThrough } from 'node:stream'
import { channels, encodeFrame } from '../../protocol/tunnel-frames.ts'
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT } from '../failure.ts'
import { openForward } from '../forward.ts'
import { writeFile } from '../output-file.ts'
import type { Session } from '../session.ts'
import { describeBytes } from '../snapshots.ts'
import { CONNECTION_LOST } from '../tunnel.ts'

export const declaration: Declaration = {
  arguments: '<snapshot> <file>',
  summary: 'download one as a tar',
  description: 'Through the connection of the agent, as `slipway connect` does. The deployment must serve.',
}

const STREAM = 1

export async function run(session: Session, _: object, [snapshot_id, file]: [string, string]): Promise<void> {
  const { client, out, signal } = session
  const { deployment_id } = await client.call('GET /v2/snapshots/{snapshot_id}', { params: { snapshot_id }, signal })
  const bytes = await download(session, deployment_id, snapshot_id, file)
  out.progress('')
  out.emit({ type: 'snapshot', id: snapshot_id, file, bytes }, () => `${file} has ${describeBytes(bytes)}.`)
}

async function download(session: Session, deployment_id: string, snapshot_id: string, file: string): Promise<number> {
  const received = new PassThrough()
  const onReset = (_: number, reason: string) => {
    if (!received.writableEnded) received.destroy(cutOff(reason))
  }
  const { link, ended } = await openForward(session, deployment_id, { snapshot_id }, { onReset })
  ended.catch(error => {
    if (!received.writableEnded) received.destroy(error)
  })
  try {
    link.writeTo(received, STREAM)
    link.send(encodeFrame(channels.open, undefined, STREAM))
    return await writeFile(file, received, sofar => session.out.progress(`${describeBytes(sofar)} …`))
  } finally {
    link.close()
  }
}

const cutOff = (reason: string) =>
  new CommandFailure(EXIT.failed, CONNECTION_LOST, reason || 'The download was cut off. Start it again.')
