// The containers, volumes and stores of a revision in a container engine, unsupported features, and failure reasons.
import { describe, expect, test } from 'vitest'
import { digestsOf } from '../../src/agent/engines/container/images.ts'
import { isPinned, replicaParts, sidecarImagesOf } from '../../src/agent/engines/container/replica-spec.ts'
import { type StoreSpec, storeRequestsOf, storeSpecOf } from '../../src/agent/engines/container/store-specs.ts'
import { findUnsupported } from '../../src/agent/engines/container/unsupported-features.ts'
import { parseCpu, parseMemory } from '../../src/agent/engines/quantities.ts'
import { explainExit, explainStartFailure } from '../../src/agent/images/container-failures.ts'
import type { CreateRequest } from '../../src/agent/images/docker-api.ts'
import { explainBuildFailure, explainPullFailure } from '../../src/agent/images/image-failures.ts'
import { registryOf } from '../../src/agent/images/registry-logins.ts'
import { shellCommand } from '../../src/agent/system/shell-command.ts'
import { type ResourceSpec, withDefaults } from '../../src/protocol/resources.schema.ts'
import { makeUnit } from '../support/process-engine.ts'

const ref = { deployment_id: 'd1', revision_id: 'r1' }
const unitWith = (spec: ResourceSpec = {}, more = {}) =>
  makeUnit(ref, { resources: withDefaults(spec, 'dev'), ...more })
const artifact = { location: 'shop@sha256:1', start_command: null, health_path: null, env: {}, commit: null }
const replicaContext = {
  owner: 'me',
  copy: 'c1',
  port: 8000,
  images: {},
  tokenFolder: '/agent/container/d1/models',
  secret: (name: string, key: string) => `${name}/${key}`,
  secrets: (name: string) => ({ A: `${name}/A` }),
}
const partsOf = (spec: ResourceSpec = {}, more = {}) => replicaParts(unitWith(spec, more), artifact, replicaContext)
const createBody = (spec: ResourceSpec = {}, more = {}) => partsOf(spec, more).app.body
const container = (more = {}) => ({ name: 'side', image: 'side:1', ...more })

describe('a replica', () => {
  test.each([
    [0.001, { CpuPeriod: 1_000_000, CpuQuota: 1000 }],
    [0.009, { CpuPeriod: 1_000_000, CpuQuota: 9000 }],
    [0.01, { NanoCpus: 1e7 }],
    [0.1 + 0.2, { NanoCpus: 3e8 }],
    [1.005, { NanoCpus: 1.005e9 }],
  ])('is limited to %j CPUs in thousandths, and below a hundredth by a quota', (cpu_limit, limits) => {
    const { HostConfig } = createBody({ cpu: 0.001, cpu_limit }) as { HostConfig: object }
    expect(HostConfig).toMatchObject({ CpuShares: 2, ...limits })
    expect('NanoCpus' in HostConfig).toBe('NanoCpus' in limits)
  })

  test('has its image, limits, network and published port', () => {
    expect(createBody({ cpu: 0.5, cpu_limit: 1.5, memory_mb: 64, memory_limit_mb: 128 })).toMatchObject({
      Image: 'shop@sha256:1',
      ExposedPorts: { '8000/tcp': {} },
      HostConfig: {
        NetworkMode: 'slipway-me-d1',
        CpuShares: 512,
        NanoCpus: 1.5e9,
        RestartPolicy: { Name: 'no' },
        MemoryReservation: 64 * 2 ** 20,
        Memory: 128 * 2 ** 20,
        MemorySwap: 128 * 2 ** 20,
        PortBindings: { '8000/tcp': [{ HostIp: '127.0.0.1', HostPort: '' }] },
        SecurityOpt: ['no-new-privileges'],
      },
    })
  })

  test('has labels that the user’s labels cannot replace', () => {
    const { Labels } = createBody({ labels: { team: 'a', 'slipway.owner': 'other' } }) as { Labels: object }
    expect(Labels).toMatchObject({
      team: 'a',
      'slipway.owner': 'me',
      'slipway.deployment': 'd1',
      'slipway.revision': 'r1',
      'slipway.copy': 'c1',
      'slipway.role': 'app',
    })
  })

  test('has the variables of its tracing, unless it has some of its own', () => {
    const tracing = {
      key: 'slt_1',
      variables: { LANGSMITH_API_KEY: 'slt_1', OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'a=b' },
    }
    const { Env } = createBody({}, { tracing, secrets: { LANGSMITH_TRACING: 'false' } })
    expect((Env as string[]).filter(line => /^(LANGSMITH|OTEL)_/.test(line))).toEqual([
      'OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=b',
      'LANGSMITH_TRACING=false',
    ])
  })

  test('reads its token for models from a folder of this machine, which it cannot change', () => {
    const { app, sidecars } = partsOf(
      { sidecars: [container()] },
      { models_url: 'https://slipway.example.com/v1/model-proxy' },
    )
    const { Env, HostConfig } = app.body as { Env: string[]; HostConfig: { Binds?: string[] } }
    expect(Env).toEqual(
      expect.arrayContaining([
        'SLIPWAY_MODELS_URL=https://slipway.example.com/v1/model-proxy',
        'SLIPWAY_MODEL_TOKEN_FILE=/run/slipway/models/token',
      ]),
    )
    expect(HostConfig.Binds).toEqual(['/agent/container/d1/models:/run/slipway/models:ro,z'])
    expect(JSON.stringify(sidecars)).not.toContain('models')
    expect(JSON.stringify(createBody())).not.toContain('models')
  })

  test('has an environment with the secrets over the configuration, and the platform’s variables over both', () => {
    const { Env } = replicaParts(
      unitWith({}, { secrets: { A: 'secret' }, secret_references: [{ name: 'B', secret_name: 's', secret_key: 'k' }] }),
      { ...artifact, env: { A: 'configured', PORT: '1', C: 'x=y' } },
      replicaContext,
    ).app.body
    expect(Env).toEqual([
      'A=secret',
      'PORT=8000',
      'C=x=y',
      'B=s/k',
      'SLIPWAY_ROLE=web',
      'SLIPWAY_DEPLOYMENT_ID=d1',
      'SLIPWAY_DEPLOYMENT_NAME=shop',
      'SLIPWAY_REVISION_ID=r1',
    ])
  })

  test('has sidecars in the network of the application, and init containers in that of the deployment', () => {
    const { inits, sidecars } = replicaParts(
      unitWith({
        init_containers: [container({ name: 'first' }), container({ name: 'always', restartPolicy: 'Always' })],
        sidecars: [
          container({
            command: ['run'],
            args: ['-x'],
            workingDir: '/w',
            securityContext: { runAsUser: 1, runAsGroup: 2 },
            env: [
              { name: 'A', value: 'own' },
              { name: 'B', valueFrom: { secretKeyRef: { name: 's', key: 'b' } } },
            ],
            envFrom: [{ prefix: 'P_', secretRef: { name: 's' } }],
            resources: { limits: { memory: '64Mi' }, requests: { cpu: '250m' } },
          }),
        ],
      }),
      artifact,
      { ...replicaContext, images: { 'side:1': 'side@sha256:2' } },
    )
    expect(inits.map(({ name, body }) => [name, (body.HostConfig as { NetworkMode: string }).NetworkMode])).toEqual([
      ['slipway-shop-c1-first', 'slipway-me-d1'],
    ])
    expect(sidecars.map(({ name }) => name)).toEqual(['slipway-shop-c1-always', 'slipway-shop-c1-side'])
    expect(sidecars[1]!.body).toMatchObject({
      Image: 'side@sha256:2',
      Entrypoint: ['run'],
      Cmd: ['-x'],
      WorkingDir: '/w',
      User: '1:2',
      Env: ['P_A=s/A', 'A=own', 'B=s/b'],
      HostConfig: { NetworkMode: 'container:slipway-shop-c1', Memory: 64 * 2 ** 20, CpuShares: 256, NanoCpus: 0.25e9 },
    })
  })

  const MEMORY = 64 * 2 ** 20
  test.each<[string, object | null, [memory: number, cpus: number]]>([
    ['no limits', null, [256 * 2 ** 20, 1e9]],
    ['limits of null', { limits: { memory: null, cpu: null } }, [256 * 2 ** 20, 1e9]],
    ['limits of nothing', { limits: { memory: '0', cpu: '0.0000000001' } }, [256 * 2 ** 20, 1e9]],
    ['limits of a fraction', { limits: { memory: '0.1', cpu: '0m' } }, [256 * 2 ** 20, 1e9]],
    ['requests alone', { requests: { memory: '64Mi', cpu: '2' } }, [MEMORY, 2e9]],
    ['limits', { limits: { memory: '64Mi', cpu: '500m' } }, [MEMORY, 0.5e9]],
  ])('bounds a sidecar and an init container with %s', (_, resources, [Memory, NanoCpus]) => {
    const one = container({ ...(resources && { resources }), securityContext: { runAsUser: null } })
    const spec = { sidecars: [one], init_containers: [{ ...one, name: 'init' }], memory_limit_mb: 256, cpu_limit: 1 }
    const { inits, sidecars } = partsOf({ ...spec, memory_mb: 128, cpu: 0.5 })
    for (const { body } of [...inits, ...sidecars]) {
      expect(body.HostConfig).toMatchObject({ Memory, MemorySwap: Memory, NanoCpus })
      expect(body).not.toHaveProperty('User')
    }
  })

  test('has separate emptyDir volumes, and shares claimed volumes with the deployment', () => {
    const { volumes, app } = partsOf({
      volumes: [
        { name: 'tmp', emptyDir: {} },
        { name: 'data', persistentVolumeClaim: { claimName: 'disk' } },
      ],
      volume_mounts: [
        { name: 'tmp', mountPath: '/tmp' },
        { name: 'data', mountPath: '/data', readOnly: true },
      ],
    })
    expect(volumes.map(({ name }) => name)).toEqual(['slipway-shop-c1-tmp', 'slipway-me-d1-disk'])
    expect(volumes.map(({ body }) => 'slipway.copy' in (body.Labels as object))).toEqual([true, false])
    expect(app.body.HostConfig).toMatchObject({
      Mounts: [
        { Type: 'volume', Source: 'slipway-shop-c1-tmp', Target: '/tmp', ReadOnly: false },
        { Type: 'volume', Source: 'slipway-me-d1-disk', Target: '/data', ReadOnly: true },
      ],
    })
  })

  test.each([
    ['node main.js', 'exec node main.js'],
    ['npm run x && node main.js', 'npm run x && exec node main.js'],
    ['cd app && exec ./run', 'cd app && exec ./run'],
    ['serve --port=$PORT --at $TMPDIR/run', 'exec serve --port=$PORT --at $TMPDIR/run'],
    ['echo "$X" | cat', 'echo "$X" | cat'],
    ['serve $(id -u)', 'serve $(id -u)'],
    [`cd app && serve "0.0.0.0:$PORT" 'a && b'`, `cd app && exec serve "0.0.0.0:$PORT" 'a && b'`],
    ['say "$(a "b && c d")"', 'say "$(a "b && c d")"'],
    ['cd app && . ./run', 'cd app && . ./run'],
    ['true-server', 'exec true-server'],
  ])('starts `%s` as `%s`', (command, script) => {
    expect(shellCommand(command)).toEqual(['/bin/sh', '-c', script])
  })
})

describe('a store', () => {
  const spec = {
    db_max_connections: 9,
    db_cpu: 0.5,
    db_memory_mb: 128,
    redis_memory_mb: 100,
    redis_memory_limit_mb: 120,
  }
  const unitWithStores = unitWith(spec, { needs_database: true, parts: ['redis', 'queue'] })
  const storeContext = { owner: 'me', deployment_id: 'd1', image: 'store:1', password: 'hush' }
  const [database, redis] = storeRequestsOf(unitWithStores).map(request => storeSpecOf(request, storeContext))

  test('exists only if the revision needs it', () => {
    expect(storeRequestsOf(unitWithStores).map(({ kind }) => kind)).toEqual(['database', 'redis'])
    expect(storeRequestsOf(unitWith(spec))).toEqual([])
  })

  test('is reachable by its name only within the network of the deployment', () => {
    for (const store of [database!, redis!])
      expect(store.container).toMatchObject({
        name: `slipway-me-d1-${store.kind}`,
        body: {
          HostConfig: { NetworkMode: 'slipway-me-d1', RestartPolicy: { Name: 'unless-stopped' } },
          NetworkingConfig: { EndpointsConfig: { 'slipway-me-d1': { Aliases: [store.kind] } } },
        },
      })
    expect(JSON.stringify([database, redis])).not.toMatch(/PortBindings|ExposedPorts/)
    expect({ ...database!.env, ...redis!.env }).toEqual({
      DATABASE_URI: 'postgresql://app:hush@database:5432/app',
      REDIS_URI: 'redis://:hush@redis:6379/0',
    })
  })

  test('has its limits, and Redis limits itself to less than its memory limit', () => {
    const limits = ({ body }: CreateRequest) => body.HostConfig as { Memory: number; NanoCpus: number }
    expect(limits(database!.container)).toMatchObject({ Memory: 256 * 2 ** 20, NanoCpus: 1e9 })
    expect(database!.container.body.Cmd).toEqual(expect.arrayContaining(['max_connections=9']))
    expect(limits(redis!.container).Memory).toBe(120 * 2 ** 20)
    expect((redis!.container.body.Cmd as string[]).join(' ')).toContain(
      '--maxmemory 80mb --maxmemory-policy noeviction',
    )
  })

  test('has a fingerprint that changes with its settings and its image', () => {
    const fingerprint = (store: StoreSpec) =>
      (store.container.body.Labels as Record<string, string>)['slipway.made-from']
    const [request] = storeRequestsOf(unitWithStores)
    expect(fingerprint(storeSpecOf(request!, storeContext))).toBe(fingerprint(database!))
    for (const changed of [
      storeSpecOf({ ...request!, connections: 10 }, storeContext),
      storeSpecOf(request!, { ...storeContext, image: 'store:2' }),
    ])
      expect(fingerprint(changed)).not.toBe(fingerprint(database!))
  })

  test('is passed to the application and its init containers, with host entries if the engine has no DNS', () => {
    const stores = { env: { DATABASE_URI: 'postgres://x', PORT: '1' }, hosts: ['database:10.0.0.2'] }
    const { app, inits, sidecars } = replicaParts(
      unitWith(
        { init_containers: [container({ name: 'first' })], sidecars: [container()] },
        { secrets: { DATABASE_URI: 'no' } },
      ),
      artifact,
      { ...replicaContext, stores },
    )
    expect(app.body.Env).toEqual(
      expect.arrayContaining(['DATABASE_URI=postgres://x', 'DATABASE_URL=postgres://x', 'PORT=8000']),
    )
    for (const { body } of [app, inits[0]!]) expect(body.HostConfig).toMatchObject({ ExtraHosts: stores.hosts })
    expect(sidecars[0]!.body.HostConfig).not.toHaveProperty('ExtraHosts')
  })
})

describe('an image', () => {
  test.each([
    ['side', undefined, true],
    ['side:latest', undefined, true],
    ['host:5000/side', undefined, true],
    ['side:1', undefined, false],
    ['side:1', 'Always', true],
    ['side:latest', 'IfNotPresent', false],
    [`side@sha256:${'a'.repeat(64)}`, undefined, false],
  ])('%s with the pull policy %s is pulled for each start: %s', (image, imagePullPolicy, fresh) => {
    const spec = { sidecars: [container({ image, ...(imagePullPolicy && { imagePullPolicy }) })] }
    expect(sidecarImagesOf(unitWith(spec).resources)).toEqual([{ image, fresh }])
  })
  test('is pinned if it is named by a digest or an id', () => {
    expect(['a:1', 'a@sha256:1', `sha256:${'0'.repeat(64)}`].map(isPinned)).toEqual([false, true, true])
  })
  test.each([
    ['nginx', 'docker.io'],
    ['library/nginx:1', 'docker.io'],
    ['ghcr.io/a/b', 'ghcr.io'],
    ['localhost/a', 'localhost'],
    ['127.0.0.1:5000/a:1', '127.0.0.1:5000'],
  ])('%s is in the registry %s', (image, registry) => expect(registryOf(image)).toBe(registry))
})

test.each([
  ['0.5', 0.5, 1],
  ['250m', 0.25, Number.NaN],
  [2, 2, 2],
  ['64Mi', Number.NaN, 64 * 2 ** 20],
  ['1.5G', Number.NaN, 1.5e9],
  ['much', Number.NaN, Number.NaN],
  ['2Pi', Number.NaN, 2 * 2 ** 50],
])('the quantity %s means %s CPUs or %s bytes', (value, cpu, bytes) => {
  expect([parseCpu(value), parseMemory(value)]).toEqual([cpu, bytes])
})

describe('a feature that the container engine does not support is refused', () => {
  const specWithVolume = (volume: object) => ({ volumes: [{ name: 'v', ...volume }] })
  test.each<[string, ResourceSpec, object?]>([
    ['configMap', specWithVolume({ configMap: { name: 'c' } })],
    ['secret', specWithVolume({ secret: { secretName: 's' } })],
    ['nfs', specWithVolume({ nfs: {} })],
    ['has no type', specWithVolume({})],
    ['has several types', specWithVolume({ emptyDir: {}, nfs: {} })],
    ['claimName', specWithVolume({ persistentVolumeClaim: { claimName: '../x' } })],
    ['has no volume of that name', { volume_mounts: [{ name: 'v', mountPath: '/v' }] }],
    ['slash', { ...specWithVolume({ emptyDir: {} }), volume_mounts: [{ name: 'v', mountPath: 'v' }] }],
    ['subPath', { ...specWithVolume({ emptyDir: {} }), volume_mounts: [{ name: 'v', mountPath: '/v', subPath: 'x' }] }],
    ['`X`', { init_containers: [container({ env: [{ name: 'X', valueFrom: { fieldRef: {} } }] })] }],
    ['than a secret', { sidecars: [container({ envFrom: [{ configMapRef: { name: 'c' } }] })] }],
    ['`lots` of memory', { sidecars: [container({ resources: { limits: { memory: 'lots' } } })] }],
    ['gpu', { sidecars: [container({ resources: { limits: { 'nvidia.com/gpu': 1 } } })] }],
  ])('with a reason that contains %j', (reason, spec, more) => {
    expect(findUnsupported(unitWith(spec, more))).toContain(reason)
  })

  test('while supported volumes, mounts and users are accepted', () => {
    const spec = {
      ...specWithVolume({ emptyDir: {} }),
      volume_mounts: [{ name: 'v', mountPath: '/v' }],
      sidecars: [container({ volumeMounts: [{ name: 'v', mountPath: '/v' }], securityContext: { runAsUser: 1000 } })],
    }
    expect(findUnsupported(unitWith(spec))).toBeNull()
  })
})

describe('the digest of an image', () => {
  test.each([
    ['docker.io/library/node:24', ['node@sha256:2']],
    ['node', ['docker.io/library/node@sha256:2']],
    ['docker.io/shop/web:1', ['other/web@sha256:3', 'shop/web@sha256:2']],
    ['127.0.0.1:5000/web', ['127.0.0.1:5000/web@sha256:2']],
  ])('is found for %s in the notation of Docker and of Podman', (image, RepoDigests) =>
    expect(digestsOf(image, { RepoDigests })).toEqual([expect.stringMatching(/@sha256:2$/)]),
  )
  test('is missing for an image from no registry, or from a different one', () => {
    expect(digestsOf('web:1', { RepoDigests: null })).toEqual([])
    expect(digestsOf('docker.io/shop/web:1', { RepoDigests: ['a.example/shop/web@sha256:3'] })).toEqual([])
  })
})

describe('the reason of a failure', () => {
  test.each([
    ['manifest unknown', 'The image shop:1 does not exist'],
    ['pull access denied for x, repository does not exist or may require docker login', 'denied access'],
    ['unauthorized: authentication required', 'denied access'],
    ['dial tcp 127.0.0.1:1: connect: connection refused', 'is unreachable'],
    ['lookup registry: no such host', 'is unreachable'],
    ['write /var/lib/x: no space left on device', 'The disk of the container engine is full'],
    ['something else', 'cannot be pulled: something else.'],
    ['Head "https://example.com/v2/shop/manifests/1": no basic auth credentials', 'denied access'],
  ])('after the pull failed with "%s" contains "%s"', (message, reason) =>
    expect(explainPullFailure('shop:1', message)).toContain(reason),
  )

  test('names the full disk, the port in use or the missing subnet of a failed start or build', () => {
    expect(explainStartFailure('mkdir /x: no space left on device')).toContain('disk of the container engine is full')
    expect(explainStartFailure('driver failed: port is already allocated.')).toMatch(
      /another process took its port.*allocated$/,
    )
    expect(
      explainStartFailure(
        'all predefined address pools: could not find an available, non-overlapping IPv4 address pool',
      ),
    ).toContain('default-address-pools')
    expect(explainStartFailure('all predefined address pools have been fully subnetted')).toContain(
      'default-address-pools',
    )
    expect(explainBuildFailure('copying: no space left on device')).toContain('disk of the container engine is full')
  })

  test('names the exit code or the memory limit of a container that ended', () => {
    const memory = 64 * 2 ** 20
    expect(explainExit({ ExitCode: 137, OOMKilled: true }, memory)).toBe(
      'was killed, because it needed more memory than its memory limit of 64 MB',
    )
    expect(explainExit({ ExitCode: 137 }, memory)).toContain('most likely because it needed more memory')
    expect(explainExit({ ExitCode: 137 }, 0)).toContain('by another user of its machine, or')
    expect(explainExit({ ExitCode: 3 }, memory)).toBe('ended with code 3')
    expect(explainExit({ ExitCode: 127, Error: 'exec: "x": not found' }, 0)).toContain('could not be started')
  })
})
