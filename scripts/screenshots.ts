// Takes the pictures of the dashboard that the README shows: `npm run screenshots`. With a folder as its argument it
// takes one of every screen there, wide and as a phone. `npm run dev` runs the applications they show. With `--check`
// it takes none, and fails if the dashboard has changed since the README's were taken.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type Client, createClient } from '../src/client/client.ts'
import { launchChromium } from '../test/support/chromium.ts'
import { answerTrace, toRuns } from '../test/support/example-traces.ts'
import type { RunInput } from '../test/support/trace-operations.ts'
import { arePicturesCurrent, recordPictures } from './picture-sources.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const IMAGES = join(ROOT, 'docs/images')
const PORT = Number(process.env.PORT ?? 8787)
const WAIT_MS = 120_000
const BUILD_SECONDS = 600
const MINUTE_MS = 60_000
const SIZES = { wide: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } }
const THEMES = ['light', 'dark'] as const

const [argument] = process.argv.slice(2)
if (argument === '--check') {
  if (arePicturesCurrent(ROOT)) process.exit()
  console.error('The pictures in docs/images show an earlier dashboard. Take them again: npm run screenshots')
  process.exit(1)
}
const allFolder = argument
const root = fs.mkdtempSync(join(tmpdir(), 'slipway-screenshots-'))
// With root, applications run as other users, who have to reach their folders below it.
fs.chmodSync(root, 0o755)
const environment = {
  PATH: process.env.PATH ?? '',
  HOME: root,
  SLIPWAY_CONFIG_HOME: join(root, 'config'),
  SLIPWAY_HOME: join(root, 'home'),
}

let printed = ''
const deploys: ChildProcess[] = []
const dev = spawn(process.execPath, [join(ROOT, 'src/host/dev.ts'), `--port=${PORT}`], { env: environment })
dev.stdout.on('data', chunk => (printed += chunk))
dev.stderr.pipe(process.stderr)
try {
  const link = await waitFor('the sign-in link', () => /\S+\/sign-in\?next=\/ui\/#\S+/.exec(printed)?.[0])
  const { url, api_key } = JSON.parse(fs.readFileSync(join(root, 'home/dev.json'), 'utf8'))
  const client = createClient({ url, key: api_key })
  await fillWorkspace(client)
  const traced = await fillTracing(client)
  await takePictures(client, link, traced)
  if (!allFolder) recordPictures(ROOT)
} finally {
  for (const deploy of deploys) deploy.kill()
  dev.kill('SIGINT')
  await once(dev, 'exit')
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
}

async function waitFor<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (const deadline = Date.now() + WAIT_MS; Date.now() < deadline; await delay(200)) {
    const found = await look()
    if (found !== undefined) return found
  }
  throw new Error(`Waited for ${what} in vain.`)
}

async function findId(client: Client, name: string): Promise<string> {
  const { resources } = await client.call('GET /v2/deployments', { query: { name } })
  return resources[0]!.id
}

/** Waits until the latest revision has ended. */
async function settle(client: Client, deployment_id: string): Promise<void> {
  await waitFor('a revision to end', async () => {
    const { latest_revision_id: revision_id } = await client.call('GET /v2/deployments/{deployment_id}', {
      params: { deployment_id },
    })
    const { status } = await client.call('GET /v2/deployments/{deployment_id}/revisions/{revision_id}', {
      params: { deployment_id, revision_id: revision_id! },
    })
    return /^(DEPLOYED|.*FAILED|INTERRUPTED|SKIPPED)$/.test(status) || undefined
  })
}

async function deployTemplate(client: Client, name: string, template_id: string): Promise<string> {
  const { id } = await client.call('POST /v2/deployments', {
    body: {
      name,
      source: 'internal_template',
      source_config: { template_id },
      source_revision_config: {},
      secrets: [{ name: 'GREETING', value: 'hush' }],
    },
  })
  await settle(client, id)
  return id
}

async function fillWorkspace(client: Client): Promise<void> {
  const shop = await deployTemplate(client, 'storefront', 'web-service')
  const docs = await deployTemplate(client, 'docs', 'static-site')
  await deployTemplate(client, 'support-tools', 'mcp-server')
  const params = { deployment_id: shop }
  for (const value of ['one', 'two', 'three']) {
    await client.call('PATCH /v2/deployments/{deployment_id}', {
      params,
      body: { secrets: [{ name: 'GREETING', value }] },
    })
    await settle(client, shop)
  }
  await client.call('POST /v2/deployments/{deployment_id}/revisions', { params: { deployment_id: docs } })
  await settle(client, docs)
  await deployFolder(client, 'billing', 'exit 0')
  await deployFolder(client, 'billing', 'echo "src/invoice.ts:41 Cannot find name total"; exit 2')
  await client.call('POST /v2/deployments/{deployment_id}/revisions', { params })
  await settle(client, shop)
  // The build is in progress while the pictures are taken.
  await deployFolder(client, 'checkout', 'exit 0')
  startDeploy('checkout', `sleep ${BUILD_SECONDS}`).catch(() => {})
  await waitFor('a build to start', async () => {
    const { resources } = await client.call('GET /v2/deployments', {
      query: { name: 'checkout', include: ['summary'] },
    })
    return resources[0]?.summary?.in_flight_revision?.status === 'BUILDING' || undefined
  })
}

/** JSON members are texts in the store, and JSON in a request. */
function toPost({ loc: _, attachments: __, ...run }: RunInput) {
  const texts = (['inputs', 'outputs', 'events', 'extra'] as const).flatMap(name =>
    run[name] === undefined ? [] : [[name, JSON.parse(run[name])] as const],
  )
  return { ...run, ...Object.fromEntries(texts) }
}

/** Traces with feedback, a dataset, a rule and an annotation queue. */
async function fillTracing(client: Client) {
  const traces = Array.from({ length: 30 }, (_, i) =>
    toRuns(answerTrace(i), new Date(Date.now() - (1 + i * i * 4) * MINUTE_MS), 'support-agent'),
  )
  const send = (path: string, body: unknown) => client.send({ method: 'POST', path, body })
  for (const runs of traces) await send('/runs/batch', { post: runs.map(toPost) })
  for (const [i, [root]] of traces.entries())
    await client.call('POST /feedback', {
      body: { run_id: root!.id, key: i % 3 ? 'helpful' : 'tone', score: i % 7 === 3 ? 0 : 1 },
    })
  const [project] = await waitFor('the project', async () => {
    const found = await client.call('GET /sessions', { query: { name: 'support-agent' } })
    return found.length > 0 ? found : undefined
  })
  const dataset = await client.call('POST /datasets', {
    body: { name: 'hard questions', description: 'Answers that people were not content with' },
  })
  for (const [run] of traces.slice(0, 6)) {
    const { id, inputs, outputs } = toPost(run!)
    await send('/examples', { dataset_id: dataset.id, source_run_id: id, inputs, outputs: outputs ?? null })
  }
  const session_id = project!.id
  await client.call('POST /runs/rules', {
    body: {
      display_name: 'Failed answers',
      session_id,
      sampling_rate: 1,
      add_to_dataset_id: dataset.id,
      filter: 'and(eq(is_root, true), eq(status, "error"))',
    },
  })
  const queue = await client.call('POST /annotation-queues', {
    body: { name: 'Answers to review', rubric_items: [{ feedback_key: 'correct' }, { feedback_key: 'tone' }] },
  })
  await send(
    `/annotation-queues/${queue.id}/runs`,
    traces.slice(0, 5).map(([root]) => root!.id),
  )
  return { project: session_id, trace: traces[3]![0]!.id, dataset: dataset.id, queue: queue.id }
}

/** Deploys with the command line, like a person. */
function startDeploy(name: string, build: string) {
  const folder = join(root, name)
  fs.mkdirSync(folder, { recursive: true })
  const scripts = { build, start: 'node server.js' }
  fs.writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, scripts }))
  fs.writeFileSync(
    join(folder, 'server.js'),
    `require('http').createServer((_, res) => res.end('Hello\\n')).listen(process.env.PORT)`,
  )
  const deploy = promisify(execFile)(join(ROOT, 'scripts/slipway.mjs'), ['deploy', '--create', '--yes'], {
    cwd: folder,
    env: environment,
  })
  deploys.push(deploy.child)
  return deploy
}

async function deployFolder(client: Client, name: string, build: string): Promise<void> {
  const failure = await startDeploy(name, build).then(
    () => undefined,
    ({ stderr }) => String(stderr),
  )
  const [deployment] = (await client.call('GET /v2/deployments', { query: { name } })).resources
  // A build that fails ends the command too.
  if (!deployment) throw new Error(failure)
  await settle(client, deployment.id)
}

type Traced = Awaited<ReturnType<typeof fillTracing>>
async function takePictures(client: Client, link: string, traced: Traced): Promise<void> {
  const browser = await launchChromium()
  if (typeof browser === 'string') throw new Error(browser)
  try {
    const page = await browser.newPage({ viewport: SIZES.wide, deviceScaleFactor: 1.5, reducedMotion: 'reduce' })
    await page.goto(link)
    await page.getByRole('button', { name: 'Hide this notice' }).click()
    const [shop, billing] = [await findId(client, 'storefront'), await findId(client, 'billing')]
    const screens: Record<string, string> = {
      'dashboard-list': '/deployments',
      'dashboard-deployment': `/deployments/${shop}`,
      ...(allFolder && {
        failed: `/deployments/${billing}`,
        ...Object.fromEntries(
          ['logs', 'metrics', 'traces', 'environment', 'settings', 'previews', 'history'].map(tab => [
            `deployment-${tab}`,
            `/deployments/${shop}/${tab}`,
          ]),
        ),
        project: `/traces/${traced.project}`,
        ...Object.fromEntries(
          ['charts', 'threads', 'feedback'].map(tab => [`project-${tab}`, `/traces/${traced.project}/${tab}`]),
        ),
        trace: `/traces/${traced.project}/${traced.trace}`,
        dataset: `/datasets/${traced.dataset}`,
        'annotation-queue': `/annotation/${traced.queue}`,
        'failed-logs': `/deployments/${billing}/logs`,
        compare: `/deployments/${shop}/compare?from=1&to=2`,
        ...Object.fromEntries(
          [
            'queue',
            'previews',
            'history',
            'audit',
            'listeners',
            'providers',
            'integrations',
            'channels',
            'drains',
            'webhooks',
            'alerts',
            'alerts/rules',
            'alerts/mutes',
            'logs',
            'logs/archive',
            'traces',
            'datasets',
            'annotation',
            'rules',
            'rules/new',
            'members',
            'roles',
            'keys',
            'settings',
            'account',
            'new',
          ].map(screen => [screen.replace('/', '-'), `/${screen}`]),
        ),
      }),
    }
    const folder = allFolder ?? IMAGES
    fs.mkdirSync(folder, { recursive: true })
    for (const [name, path] of Object.entries(screens)) {
      await page.goto(`${new URL(link).origin}/ui${path}`)
      await page
        .getByRole('status')
        .filter({ hasText: /^Live$/ })
        .waitFor()
      await page.getByRole('heading', { level: 1 }).waitFor()
      await page.getByRole('status', { name: 'Loading' }).first().waitFor({ state: 'detached' })
      for (const [size, viewport] of Object.entries(allFolder ? SIZES : { wide: SIZES.wide })) {
        await page.setViewportSize(viewport)
        for (const colorScheme of THEMES) {
          await page.emulateMedia({ colorScheme })
          const file = join(folder, `${name}-${colorScheme}${allFolder ? `-${size}` : ''}.png`)
          await page.screenshot({ path: file, fullPage: allFolder !== undefined })
          console.log(file)
        }
      }
    }
  } finally {
    await browser.close()
  }
}
