// `slipway snapshots restore`: replaces the data of a disk or the database by those of a snapshot.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { followJob } from '../jobs.ts'
import { confirm, findDeployment, type Session } from '../session.ts'
import { parseTime } from '../times.ts'

export const declaration: Declaration = {
  arguments: '<deployment> [snapshot]',
  summary: 'replace the data of a store by those of a snapshot',
  description:
    'Copies of the deployment stop for a moment. What was there is kept as a snapshot. The snapshot may be of ' +
    'another deployment of the same listener. With --at, the database as it was at a time.',
  options: command =>
    command
      .option('--store <store>', 'the store to replace. Default: the one of the snapshot')
      .option('--at <time>', 'the database as it was at this time, such as 2h or 2026-11-22T12:00:00Z')
      .option('--from <deployment>', 'with --at: the database of another deployment of the same listener'),
}

type Source = { snapshot_id?: string; at?: string; from_deployment_id?: string }
type Flags = { store?: string; at?: string; from?: string }

export async function run(session: Session, flags: Flags, [name, snapshot_id]: [string, string?]): Promise<void> {
  const { client, signal } = session
  const { at, from } = flags
  if ((snapshot_id === undefined) === (at === undefined)) throw usageError('Name a snapshot, or a time with --at.')
  if (from !== undefined && at === undefined) throw usageError('--from needs --at.')
  const deployment = await findDeployment(session, name)
  const source: Source =
    at === undefined
      ? { snapshot_id: snapshot_id! }
      : { at: parseTime(at, '--at'), ...(await fromOther(session, from)) }
  const store = flags.store ?? (snapshot_id === undefined ? 'database' : await storeOf(session, snapshot_id))
  const options = at === undefined ? snapshot_id : `--at ${source.at}${from === undefined ? '' : ` --from ${from}`}`
  const again = `slipway snapshots restore ${deployment.name} ${options} --yes`
  await confirm(session, `Replace ${store} of ${deployment.name}? What is there is kept as a snapshot.`, again)
  const request = { params: { deployment_id: deployment.id }, body: { store, ...source }, signal }
  await followJob(session, await client.call('POST /v2/deployments/{deployment_id}/restores', request))
}

const fromOther = async (session: Session, from: string | undefined) =>
  from === undefined ? {} : { from_deployment_id: (await findDeployment(session, from)).id }

const storeOf = async ({ client, signal }: Session, snapshot_id: string): Promise<string> =>
  (await client.call('GET /v2/snapshots/{snapshot_id}', { params: { snapshot_id }, signal })).store
