// Breaks twenty applications in five ways, and measures the time from each cause to the receipt at a webhook and at a
// mail server: a real control plane, a real agent, real processes.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { requestRouter } from '../../../support/process-engine.ts'
import { readText, startMailServer } from '../../support/mail-server.ts'
import { makeRandom } from '../../support/random.ts'
import { check, findMissing, note, optionOf, PATIENCE_MS, skipped } from '../../support/trial.ts'
import { until } from '../../support/two-hosts.ts'
import { startInstallation } from '../whole-application/installation.ts'
import { startReceiver, upload } from './parts.ts'

const APPS = Number(optionOf('apps') ?? 20)
const TARGET_SECONDS = 20
/** The causes of one kind begin within this time, so that they meet the schedules at all their phases. */
const SPREAD_MS = 60_000
const REQUEST_MS = 100
const MAIN = readFileSync(join(import.meta.dirname, 'app/main.mjs'), 'utf8')
const CONFIGURATION = { start_command: 'node main.mjs' }

type App = { name: string; id: string; url: string }
type Kind = {
  name: string
  /** The rule that is to tell. */
  rule: string
  /** Returns when the cause was there. */
  cause(app: App): Promise<number>
  recover?(app: App): Promise<void>
}

const describe = (values: number[]): string => {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]! / 1000).toFixed(1)
  return `${values.length}, p50 ${at(0.5)} s, p99 ${at(0.99)} s`
}

export async function measureCauseToChannel(): Promise<void> {
  const missing = findMissing('smtpd')
  if (missing) return skipped(missing)
  await using cleanup = new AsyncDisposableStack()
  const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
  const random = makeRandom(1)
  const mail = await startMailServer({ defer })
  const crashing = new Set<string>()
  const receiver = await startReceiver(defer, name => (crashing.has(name) ? 'crash' : 'run'))
  const installation = await startInstallation(cleanup, 'process', { AGENT_METRICS_SECONDS: '60' }, undefined, {
    planeSettings: { SMTP_URL: mail.url, SMTP_FROM: 'Slipway <alerts@slipway.example.com>', EMAILS_PER_HOUR: '100000' },
  })
  const { api } = installation

  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await api(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  const webhook = { kind: 'webhook', url: `${receiver.url}/notices` }
  await call('POST', '/v2/channels', { name: 'hook', is_default: true, target: webhook })
  const email = { kind: 'email', address: 'nobody@example.com' }
  await call('POST', '/v2/channels', { name: 'mail', is_default: true, target: email })
  await confirmAddress(mail)
  const rules = [
    { name: 'Payments fail', condition: { kind: 'log', contains: 'payment failed', window_seconds: 10 } },
    { name: 'Revision fails', condition: { kind: 'event', types: ['revision.*_failed'] } },
  ]
  for (const rule of rules) await call('POST', '/v2/alert-rules', { severity: 'error', ...rule })

  const files = { 'main.mjs': MAIN, 'slipway.json': JSON.stringify(CONFIGURATION) }
  const source = await upload(installation, files)
  const apps: App[] = []
  for (let i = 0; i < APPS; i++) {
    const name = `app-${i}`
    const { id } = await call('POST', '/v2/deployments', {
      name,
      source: 'internal_source',
      source_config: { resource_spec: { memory_limit_mb: 256 } },
      source_revision_config: { source_tarball_path: source },
      secrets: [{ name: 'SWITCH_URL', value: `${receiver.url}/switch/${name}` }],
    })
    apps.push({ name, id, url: '' })
  }
  for (const app of apps)
    app.url = await until(
      `${app.name} serves`,
      async () => {
        const url = await installation.readUrl(app.id)
        return url && (await requestRouter(url)).status === 200 ? url : undefined
      },
      PATIENCE_MS,
    )
  note(`${APPS} applications serve`)

  const isServing = async ({ url }: App) => (await requestRouter(url)).status === 200
  const command = (app: App, kind: string) => requestRouter(app.url, `/break?kind=${kind}`)
  const kinds: Kind[] = [
    {
      name: 'a line of the log',
      rule: 'Payments fail',
      cause: async app => {
        const at = Date.now()
        await command(app, 'log')
        return at
      },
    },
    {
      name: 'a failed revision',
      rule: 'Revision fails',
      cause: async app => {
        const failing = [
          `await fetch('${receiver.url}/failed/${app.name}')`,
          "console.error('no such module: left-pad')",
          'process.exit(1)',
        ].join('\n')
        const build = { ...CONFIGURATION, build_command: 'node build.mjs' }
        const broken = { ...files, 'build.mjs': failing, 'slipway.json': JSON.stringify(build) }
        const source_tarball_path = await upload(installation, broken)
        await call('PATCH', `/v2/deployments/${app.id}`, { source_revision_config: { source_tarball_path } })
        return until('its build fails', () => receiver.failedBuilds.get(app.name), PATIENCE_MS)
      },
    },
    {
      name: 'answers with 5xx',
      rule: 'Many requests fail',
      cause: async app => {
        await command(app, 'fail')
        const at = Date.now()
        const end = at + 60_000
        const load = async () => {
          for (; Date.now() < end && !findNotice(app, 'Many requests fail'); await delay(REQUEST_MS))
            await requestRouter(app.url).catch(() => {})
          await command(app, 'heal')
        }
        void load()
        return at
      },
    },
    {
      name: 'a crash that goes on',
      rule: 'Not healthy',
      cause: async app => {
        crashing.add(app.name)
        const at = Date.now()
        await command(app, 'crash').catch(() => {})
        return at
      },
      recover: async app => {
        crashing.delete(app.name)
        await until(`${app.name} serves again`, () => isServing(app), PATIENCE_MS)
      },
    },
    {
      name: 'a copy killed for its memory',
      rule: 'Out of memory',
      cause: async app => {
        const at = Date.now()
        await command(app, 'leak')
        return at
      },
    },
  ]
  const findNotice = (app: App, rule: string) =>
    receiver.notices.find(({ phase, title }) => phase === 'open' && title === `${app.name}: ${rule}`)
  const findMail = (app: App, rule: string) =>
    mail.readMails().find(({ source }) => source.includes(`Subject: [Slipway] ${app.name}: ${rule}`))

  for (const { name, rule, cause, recover } of kinds) {
    const delays = await Promise.all(
      apps.map(async app => {
        await delay(SPREAD_MS * random())
        const at = await cause(app)
        const told = await until(`${app.name} is told`, () => findNotice(app, rule), 180_000).catch(() => undefined)
        if (!told) return undefined
        const sent = await until('an e-mail has come', () => findMail(app, rule), 60_000).catch(() => undefined)
        return { hook: told.at - at, mail: sent && sent.at - at }
      }),
    )
    const hooks = delays.flatMap(one => one?.hook ?? [])
    const mails = delays.flatMap(one => one?.mail ?? [])
    if (hooks.length > 0) note(`${name}: webhook ${describe(hooks)}; e-mail ${describe(mails)}`)
    check(`${name}: each is told, by e-mail too`, hooks.length === APPS && mails.length === APPS, `${hooks.length}`)
    const slowest = Math.max(...hooks, ...mails) / 1000
    check(`${name}: within ${TARGET_SECONDS} s`, slowest <= TARGET_SECONDS, `${slowest.toFixed(1)} s`)
    if (recover) await Promise.all(apps.map(recover))
  }
}

/** The owner of the mailbox follows the link. */
async function confirmAddress({ readMails }: Awaited<ReturnType<typeof startMailServer>>): Promise<void> {
  const link = await until('the address is to be confirmed', () => {
    const texts = readMails().map(readText)
    return texts.flatMap(source => /http\S+\/channel-links\/confirm\?token=\S+/.exec(source) ?? [])[0]
  })
  const answer = await fetch(link, { method: 'POST', body: new URLSearchParams() })
  check('the address is confirmed by its link', answer.ok, await answer.text())
}
