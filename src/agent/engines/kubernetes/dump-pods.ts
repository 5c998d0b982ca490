// Pods that read or write the claim of dumps for the agent. One waits until the agent has run its command in it.
import type { Readable, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { V1PersistentVolumeClaim } from '@kubernetes/client-node'
import { PermanentError } from '../../engine.ts'
import type { Cluster } from './cluster.ts'
import { placeOf, taskJobOf } from './dump-objects.ts'
import { READER_SCRIPT } from './dump-scripts.ts'
import { BACKUP_OF_LABEL, DEPLOYMENT_LABEL } from './names.ts'
import { startPodTerminal } from './pod-sockets.ts'
import type { KubernetesSettings } from './settings.ts'
import type { TaskJobs } from './task-jobs.ts'

type Options = { cluster: Cluster; settings: KubernetesSettings; tasks: TaskJobs }
type Command = { script: string; env: Record<string, string>; isReadOnly: boolean }
export type DumpPod = {
  input: Writable
  output: Readable
  /** Rejects with the last words of the command unless it has succeeded. */
  done: Promise<void>
  /** The pod goes. */
  end: () => void
}

const [POD_SECONDS, START_MS, MAX_WORDS] = [3600, 120_000, 1_000]
export const endOfId = (id: string) => id.replaceAll('-', '').slice(-12)

export async function openDumpPod(
  { cluster, settings, tasks }: Options,
  claim: V1PersistentVolumeClaim,
  { script, env, isReadOnly }: Command,
): Promise<DumpPod> {
  const place = placeOf(claim)
  const { [BACKUP_OF_LABEL]: deployment_id, ...labels } = place.labels
  const name = `${place.base}-read-${endOfId(crypto.randomUUID())}`
  const job = taskJobOf(settings, { ...place, labels: { ...labels, [DEPLOYMENT_LABEL]: deployment_id! } }, name, {
    task: 'read',
    claim: claim.metadata!.name!,
    script: READER_SCRIPT,
    seconds: POD_SECONDS,
    isReadOnly,
    retries: 0,
  })
  const end = () => void cluster.remove(job).catch(() => {})
  try {
    const pod = await tasks.waitUntilRunning(job, AbortSignal.timeout(START_MS))
    const container = job.spec!.template.spec!.containers[0]!.name
    const variables = Object.entries(env).map(([key, value]) => `${key}=${value}\n`)
    const request = {
      command: ['/bin/sh', '-c', variables.join('') + script],
      tty: false,
      columns: 80,
      rows: 24,
    }
    const { input, output, errors, exit } = await startPodTerminal(cluster.config, { ...pod, container }, name, request)
    const words = errors ? text(errors).catch(() => '') : Promise.resolve('')
    const done = exit.then(async ({ code }) => {
      if (code !== 0) throw new PermanentError(`A pod could not use the dumps: ${(await words).slice(-MAX_WORDS)}`)
    })
    done.catch(() => {})
    input.on('error', () => {})
    return { input, output, done, end }
  } catch (error) {
    end()
    throw error
  }
}
