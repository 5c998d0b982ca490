// The examples of graphs in containers of a Podman: images, a database, workers, the key and the SDKs.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Podman, startPodman } from '../../../support/podman.ts'
import { check, findMissing, note, skipped } from '../../support/trial.ts'
import { until } from '../../support/two-hosts.ts'
import { pushImages } from '../whole-application/images.ts'
import { type Installation, startInstallation } from '../whole-application/installation.ts'
import { checkBySdks, hasWorker } from './clients.ts'

const EXAMPLES = join(import.meta.dirname, '../../../../examples')

/** Node of this machine on the image of Debian: official images cannot be reached everywhere. */
export async function pushNodeImage({ podman, push, registry }: Podman, base: string): Promise<string> {
  const context = mkdtempSync(join(tmpdir(), 'slipway-node-image-'))
  const image = `${registry}/node:1`
  try {
    cpSync(process.execPath, join(context, 'node'))
    cpSync(
      join(dirname(realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())), '..'),
      join(context, 'npm'),
      { recursive: true },
    )
    const lines = [
      `FROM ${base}`,
      'COPY node /usr/local/bin/node',
      'COPY npm /usr/local/lib/npm',
      'RUN ln -s /usr/local/lib/npm/bin/npm-cli.js /usr/local/bin/npm',
    ]
    writeFileSync(join(context, 'Dockerfile'), `${lines.join('\n')}\n`)
    await podman('build', '-t', image, context)
    await push(image)
  } finally {
    rmSync(context, { recursive: true, force: true })
  }
  return image
}

async function tryExample({ slipway, api }: Installation, example: string): Promise<void> {
  const name = `${example}, container`
  const since = performance.now()
  const deploy = ['deploy', join(EXAMPLES, example), '--create', '--name', example, '--yes', '--timeout', '600']
  const { code, lines, errors } = await slipway(deploy)
  note(`${name}: ${((performance.now() - since) / 1000).toFixed(1)} s from the command to its end`)
  check(`${name}: it is built and serves`, code === 0, `${JSON.stringify(lines.slice(-12))} ${errors}`)
  if (code !== 0) return
  const { deployment_id, local_url } = lines.at(-1) as { deployment_id: string; local_url: string }
  const { body } = await api('GET', `/v2/deployments/${deployment_id}?reveal=true`)
  const { application_key: key } = body as unknown as { application_key: string }
  check(`${name}: it has an address without a name, and a key`, Boolean(local_url) && /^slg_/.test(key), `${local_url}`)
  await checkBySdks(name, local_url, key)

  const path = `/v2/deployments/${deployment_id}`
  await api('PATCH', path, { source_config: { resource_spec: { queue_min_scale: 1 } } })
  const isWorking = async () => {
    const { lines } = await slipway(['logs', example, '--tail', '300'])
    return hasWorker(lines.map(line => JSON.stringify(line)).join('\n'))
  }
  check(`${name}: queue_* starts a worker`, await until('the worker serves', isWorking, 300_000).catch(() => false))
  const again = await slipway(deploy)
  const address = again.lines.at(-1)?.local_url
  check(`${name}: its address and its threads stay`, address === local_url, JSON.stringify(again.lines.slice(-3)))
  const found = await fetch(`${local_url}/threads/count`, {
    method: 'POST',
    headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' },
    body: '{}',
  })
  const count = Number(await found.text())
  check(`${name}: its threads outlive a revision`, count >= 2, `${count}`)
  for (const frozen_seconds of [3600, 0]) {
    await api('PATCH', path, { source_config: { resource_spec: { min_scale: 0, idle_seconds: 10, frozen_seconds } } })
    const stateOf = async () => ((await api('GET', path)).body.health as { state?: string } | null)?.state
    const isAsleep = async () => (await stateOf()) === 'sleeping'
    const sleeps = await until('it sleeps', isAsleep, 120_000).catch(() => false)
    check(`${name}: it sleeps, ${frozen_seconds} s frozen`, sleeps !== false, await stateOf())
    const since = performance.now()
    await checkBySdks(`${name}, woken`, local_url, key)
    note(`${name}: woken, both SDKs ended after ${((performance.now() - since) / 1000).toFixed(1)} s`)
    await until('it is awake', async () => !(await isAsleep()), 60_000)
  }
}

export async function tryContainers(): Promise<void> {
  const missing = findMissing('podman', 'runc', 'docker-registry', 'busybox', 'debootstrap')
  const obstacle = missing ?? (process.getuid?.() === 0 ? undefined : 'debootstrap needs root')
  if (obstacle) return skipped(`containers: ${obstacle}`)
  await using cleanup = new AsyncDisposableStack()
  const podman = await startPodman()
  cleanup.defer(() => podman.stop())
  const { base, database } = await pushImages(podman)
  const installation = await startInstallation(cleanup, 'container', {
    CONTAINER_SOCKET: podman.socket,
    CONTAINER_BASE_IMAGES: `python=${base},node=${await pushNodeImage(podman, base)}`,
    CONTAINER_POSTGRES_IMAGE: database,
    CONTAINER_REDIS_IMAGE: base,
  })
  for (const example of ['graph-javascript', 'graph-python']) await tryExample(installation, example)
}
