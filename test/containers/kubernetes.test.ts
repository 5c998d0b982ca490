// What a cluster is asked for, played by Podman: pods that run as they are told, with their limits, secrets and volumes, and may do the least.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { revisionObjects } from '../../src/agent/engines/kubernetes/revision-objects.ts'
import { storesFor } from '../../src/agent/engines/kubernetes/store-objects.ts'
import { waitFor } from '../support/commands.ts'
import { makeArtifact, makeKubernetesSettings, makeKubernetesUnit } from '../support/kubernetes-fixtures.ts'
import { APPLICATION_IMAGE, type PodmanPlay, STORE_IMAGE, startPodmanPlay } from '../support/podman-play.ts'

const NAME = 'shop-aaaaaaaa00-r1'
const APP = `${NAME}-pod-0-app`
const SMALL = { cpu: 0.2, cpu_limit: 0.5, memory_mb: 64, memory_limit_mb: 96 }
let play: PodmanPlay
beforeAll(async () => {
  play = await startPodmanPlay()
})
afterEach(() => play.clear())
afterAll(() => play.stop())

const revision = (more: Parameters<typeof makeKubernetesUnit>[0] = {}, artifact = {}) =>
  revisionObjects(
    makeKubernetesSettings(),
    makeKubernetesUnit({ spec: SMALL, ...more }),
    makeArtifact({ location: APPLICATION_IMAGE, ...artifact }),
  )

test('an application runs, on its port, with its secrets, within its limits, and may do the least', async () => {
  await play.play(revision({ secrets: { TOKEN: 'hush' } }, { env: { MODE: 'fast' } }))
  expect(await waitFor(() => play.inside(APP, 'wget -qO- http://127.0.0.1:8000/health').catch(() => ''))).toBe('well')
  const env = await play.inside(APP, 'env')
  for (const one of ['TOKEN=hush', 'MODE=fast', 'PORT=8000', 'SLIPWAY_ROLE=web']) expect(env).toContain(one)
  const status = await play.inside(APP, 'cat /proc/1/status')
  expect(status).toMatch(/^Uid:\s+1000/m)
  expect(status).toMatch(/^CapEff:\s+0+$/m)
  expect(status).toMatch(/^NoNewPrivs:\s+1$/m)
  expect(status).toMatch(/^Seccomp:\s+2$/m)
  const limits = await play.podman(
    'inspect',
    APP,
    '--format',
    '{{.HostConfig.Memory}} {{.HostConfig.CpuQuota}}/{{.HostConfig.CpuPeriod}}',
  )
  expect(limits).toBe(`${96 * 1024 * 1024} 50000/100000`)
  await expect(play.inside(APP, 'mount -t tmpfs none /tmp')).rejects.toThrow()
})

test('what it is told to start with is a command of a shell', async () => {
  await play.play(
    revision(
      {},
      { start_command: 'echo "from $MODE" > /www/said && exec httpd -f -p $PORT -h /www', env: { MODE: 'here' } },
    ),
  )
  expect(await waitFor(() => play.inside(APP, 'wget -qO- http://127.0.0.1:8000/said').catch(() => ''))).toBe(
    'from here',
  )
})

test('what comes before it, stands beside it, and is shared between them', async () => {
  const mounts = [{ name: 'shared', mountPath: '/shared' }]
  const shell = (name: string, script: string) => ({
    ...{ name, image: APPLICATION_IMAGE, command: ['/bin/sh', '-c', script], volumeMounts: mounts },
  })
  const spec = {
    ...SMALL,
    volumes: [{ name: 'shared', emptyDir: {} }],
    volume_mounts: mounts,
    init_containers: [{ ...shell('first', 'echo before > /shared/first'), securityContext: { runAsUser: 0 } }],
    sidecars: [shell('beside', 'exec sleep 1000000')],
  }
  await play.play(revision({ spec }))
  expect(await waitFor(() => play.inside(APP, 'cat /shared/first').catch(() => ''))).toBe('before')
  expect(await play.inside(`${NAME}-pod-0-beside`, 'cat /shared/first')).toBe('before')
})

test('it is asked to end, and ends within its time', async () => {
  await play.play(revision({}, { start_command: 'trap "exit 7" TERM; while :; do sleep 0.1; done' }))
  await waitFor(async () => (await play.podman('inspect', APP, '--format', '{{.State.Status}}')) === 'running')
  await play.podman('stop', '--time', '30', APP)
  expect(await play.podman('inspect', APP, '--format', '{{.State.ExitCode}}')).toBe('7')
})

test('a store keeps its data on its volume, is told its limits, and is found ready by its own probe', async () => {
  const settings = makeKubernetesSettings({ K8S_POSTGRES_IMAGE: STORE_IMAGE })
  const [store] = storesFor(
    settings,
    makeKubernetesUnit({ spec: { db_max_connections: 42, db_cpu: 0.1, db_memory_mb: 64 } }),
  )
  const objects = [store!.secret('generated'), ...store!.objects]
  // Podman makes a volume the root's, and knows no fsGroup: the user of a store could not write it.
  const container = 'shop-aaaaaaaa00-db-postgres'
  await play.play(objects.filter(({ kind }) => kind !== 'StatefulSet'))
  const at = await play.podman('volume', 'inspect', 'shop-aaaaaaaa00-db', '--format', '{{.Mountpoint}}')
  await play.podman(
    'run',
    '--rm',
    '--user',
    '0',
    '--volume',
    `${at}:/volume`,
    '--entrypoint',
    '/bin/chmod',
    STORE_IMAGE,
    '777',
    '/volume',
  )
  await play.play(objects.filter(({ kind }) => kind === 'StatefulSet'))
  expect(await waitFor(() => play.inside(container, 'cat /data/pg/arguments').catch(() => ''))).toBe(
    '-c max_connections=42',
  )
  expect(await play.inside(container, 'env')).toContain('POSTGRES_PASSWORD=generated')
  expect(await play.inside(container, 'cat /proc/1/status')).toMatch(/^Uid:\s+999/m)
  const [probe] = objects.flatMap(object => (object as never as Probed).spec?.template?.spec.containers ?? [])
  await play.podman('exec', container, ...probe!.readinessProbe.exec.command)
  await play.podman('pod', 'rm', '--all', '--force', '--time', '0')
  await play.play(objects.filter(({ kind }) => kind === 'StatefulSet'))
  await waitFor(
    async () => (await play.inside(container, 'cat /data/pg/arguments').catch(() => '')).split('\n').length === 2,
  )
})
type Probed = { spec?: { template?: { spec: { containers: { readinessProbe: { exec: { command: string[] } } }[] } } } }
