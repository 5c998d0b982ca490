// Cloud Run: the image as deploy/cloud-run/service.yaml describes it, behind Google's front end.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { load } from 'js-yaml'
import { findFreePort } from '../../../../src/postgres/free-port.ts'
import { CACHE, check, findMissing, isInstalling, skipped } from '../../support/trial.ts'
import { checkInstance, checkStop, LIMITS, type Platform } from './checks.ts'
import { type Image, startContainer } from './containers.ts'
import { type DiscoverySchema, findFaults } from './discovery-schema.ts'
import { type Installation, ROOT, type Settings } from './self-host.ts'

/** A package of PyPI that has the discovery documents of Google's APIs. */
const PACKAGE = 'google-api-python-client==2.202.0'
const DOCUMENT = 'googleapiclient/discovery_cache/documents/run.v1.json'
const KILLED_AFTER_MS = 10_000

type Probe = { httpGet: { path: string }; periodSeconds: number; failureThreshold: number }
type Container = {
  image: string
  args?: string[]
  ports: { containerPort: number }[]
  env: { name: string; value?: string; valueFrom?: { secretKeyRef: { name: string } } }[]
  startupProbe: Probe
  livenessProbe: Probe
}
type Service = {
  metadata: { annotations: Settings }
  spec: { template: { metadata: { annotations: Settings }; spec: { containers: [Container]; timeoutSeconds: number } } }
}

const readService = (variables: Settings): Service => {
  const text = readFileSync(join(ROOT, 'deploy/cloud-run/service.yaml'), 'utf8')
  return load(text.replaceAll(/\$\{(\w+)\}/g, (_, name) => variables[name] ?? '')) as Service
}

async function readSchemas(): Promise<Record<string, DiscoverySchema> | undefined> {
  const folder = join(CACHE, PACKAGE)
  if (!existsSync(folder)) {
    if (!isInstalling || findMissing('pip')) return undefined
    mkdirSync(folder)
    execFileSync('pip', ['download', '--quiet', '--no-deps', '--dest', folder, PACKAGE], { stdio: 'inherit' })
    const wheel = readdirSync(folder).find(name => name.endsWith('.whl'))!
    execFileSync('python3', ['-m', 'zipfile', '-e', join(folder, wheel), folder])
  }
  return JSON.parse(readFileSync(join(folder, DOCUMENT), 'utf8')).schemas
}

function checkSchema(service: Service, schemas: Record<string, DiscoverySchema>): void {
  const faults = findFaults(schemas, schemas.Service!, service, 'service')
  check('cloud-run: service.yaml follows the schema of the API', faults.length === 0, faults.join('; '))
  const unknown = findFaults(schemas, schemas.Service!, { ...service, specs: {} }, 'service')
  check('cloud-run: the schema refuses an unknown member', unknown.length === 1)
  // The API describes in prose which annotation belongs to which resource.
  const text = schemas.ObjectMeta!.properties!.annotations!.description!
  const belongs = (name: string, kind: string) => new RegExp(`\`${name}\`: [^*]*\\b${kind}\\b`).test(text)
  const wrong = [
    ...Object.keys(service.metadata.annotations).filter(name => !belongs(name, 'Service')),
    ...Object.keys(service.spec.template.metadata.annotations).filter(name => !belongs(name, 'Revision')),
  ]
  check('cloud-run: every annotation exists for its resource', wrong.length === 0, wrong.join(', '))
}

export async function tryCloudRun(image: Image, installation: Installation): Promise<void> {
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const secrets = installation.settings
  const service = readService({
    ...secrets,
    PUBLIC_URL: url,
    IMAGE: image.name,
    SERVICE_ACCOUNT: 'slipway@example.com',
  })
  const schemas = await readSchemas()
  if (schemas) checkSchema(service, schemas)
  else skipped(`cloud-run: the schema of the API: needs ${PACKAGE} of PyPI: --install`)

  const { spec, metadata } = service.spec.template
  const [container] = spec.containers
  const { startupProbe, livenessProbe } = container
  check('cloud-run: the container is that of the image', container.image === image.name)
  check(
    'cloud-run: an instance runs at all times, with a processor, for scheduled work',
    Number(metadata.annotations['autoscaling.knative.dev/minScale']) > 0 &&
      metadata.annotations['run.googleapis.com/cpu-throttling'] === 'false',
  )
  // The names of the secrets are those that the commands of the page create.
  const environment = container.env.map(({ name, value, valueFrom }) => {
    const secret = valueFrom?.secretKeyRef.name.replace('slipway-', '')
    return [name, value ?? secrets[secret!] ?? ''] as const
  })
  const settings = Object.fromEntries(environment)

  await using cleanup = new AsyncDisposableStack()
  const instance = await startContainer(cleanup, {
    image,
    platform: 'cloud-run',
    ...(container.args && { args: container.args }),
    settings: {
      ...settings,
      ...LIMITS,
      PORT: `${port}`,
      K_SERVICE: 'slipway',
      // The front end of this trial is on the loopback.
      TRUSTED_PROXIES: `${settings.TRUSTED_PROXIES},127.0.0.1`,
    },
  })
  const platform: Platform = {
    name: 'cloud-run',
    ready: {
      path: startupProbe.httpGet.path,
      withinMs: 1000 * startupProbe.periodSeconds * startupProbe.failureThreshold,
    },
    healthPath: livenessProbe.httpGet.path,
    listens: 'everywhere',
    clientHeaders: (client, forged) => ({ 'X-Forwarded-For': `${forged}, ${client}` }),
    stop: { signal: 'SIGTERM', killedAfterMs: KILLED_AFTER_MS, checkMs: 0 },
  }
  const { SHUTDOWN_DELAY_SECONDS: delay, SHUTDOWN_TIMEOUT_SECONDS: timeout } = settings
  check(
    'cloud-run: the delay and the timeout fit into the time before SIGKILL',
    1000 * (Number(delay) + Number(timeout) + 1) < KILLED_AFTER_MS,
  )
  await checkInstance(platform, instance, installation.key, installation.countUploads)
  await instance.checkReadOnly()
  await checkStop(platform, instance, installation.key)
}
