// The first night of a new user: default settings with a mail server, a person who only signed in by a link, and an
// application that leaks memory, is killed for it, and then crashes whenever it starts. Prints what reached them.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { requestRouter } from '../../../support/process-engine.ts'
import { readText, startMailServer } from '../../support/mail-server.ts'
import { check, findMissing, note, PATIENCE_MS, skipped } from '../../support/trial.ts'
import { until } from '../../support/two-hosts.ts'
import { startInstallation } from '../whole-application/installation.ts'
import { startReceiver, upload } from './parts.ts'

const ADDRESS = 'ada@example.com'
const MAIN = readFileSync(join(import.meta.dirname, 'app/leaking.mjs'), 'utf8')
const REQUEST_MS = 200
/** The first copy is killed for its memory, later ones crash at once. */
const CALM_STARTS = 1

export async function liveFirstNight(): Promise<void> {
  const missing = findMissing('smtpd')
  if (missing) return skipped(missing)
  await using cleanup = new AsyncDisposableStack()
  const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
  const mail = await startMailServer({ defer })
  let [starts, isMended] = [0, false]
  const receiver = await startReceiver(defer, () => (isMended ? 'run' : ++starts > CALM_STARTS ? 'crash' : 'leak'))
  const installation = await startInstallation(cleanup, 'process', { AGENT_METRICS_SECONDS: '60' }, undefined, {
    planeSettings: { SMTP_URL: mail.url, SMTP_FROM: 'Slipway <alerts@slipway.example.com>' },
    options: ['--email', ADDRESS],
  })
  const { api, url, signInLinks } = installation

  const beganAt = Date.now()
  const clock = (at: number) =>
    `${Math.floor((at - beganAt) / 60_000)}:${String(Math.floor((at - beganAt) / 1000) % 60).padStart(2, '0')}`
  const tell = (text: string, at = Date.now()) => note(`${clock(at).padStart(5)}  ${text}`)

  const token = signInLinks[0]!.split('#')[1]!
  const signedIn = await fetch(`${url}/sign-in/link`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Origin: url, 'Sec-Fetch-Site': 'same-origin' },
    body: JSON.stringify({ token }),
  })
  check('she signs in by her link', signedIn.ok, String(signedIn.status))
  tell('She signs in by her link, and sets up nothing else.')
  const hasChannel = async () =>
    ((await api('GET', '/v2/alert-settings')).body as unknown as { default_channels: number }).default_channels === 1
  await until('there is a channel', hasChannel, 70_000)
  tell('Her workspace has a channel.')

  const source_tarball_path = await upload(installation, {
    'main.mjs': MAIN,
    'slipway.json': JSON.stringify({ start_command: 'node main.mjs' }),
  })
  const { body } = await api('POST', '/v2/deployments', {
    name: 'shop',
    source: 'internal_source',
    source_config: { resource_spec: { memory_limit_mb: 256 } },
    source_revision_config: { source_tarball_path },
    secrets: [{ name: 'SWITCH_URL', value: `${receiver.url}/switch/shop` }],
  })
  const { id } = body
  const address = await until(
    'it serves',
    async () => {
      const found = await installation.readUrl(id)
      return found && (await requestRouter(found)).status === 200 ? found : undefined
    },
    PATIENCE_MS,
  )
  tell('Her application serves.')
  let isOver = false
  const use = (async () => {
    for (; !isOver; await delay(REQUEST_MS)) await requestRouter(address).catch(() => {})
  })()

  await until('it crashes again and again', () => starts > CALM_STARTS + 2, 600_000)
  const readMails = () => mail.readMails().toSorted((a, b) => a.at - b.at)
  const isToldOf = (words: RegExp) => readMails().some(({ source }) => words.test(source))
  const isTold = await until('she is told', () => isToldOf(/Subject: \[Slipway\] shop: Not healthy/), 60_000).catch(
    () => false,
  )
  await delay(30_000)
  tell('She mends it.')
  isMended = true
  const isEnded = await until(
    'its end is told',
    () => isToldOf(/Subject: Re: \[Slipway\] shop: Not healthy/),
    300_000,
  ).catch(() => false)
  isOver = true
  await use

  const mails = readMails()
  for (const one of mails) {
    tell(`E-mail to ${/^to: (.*)$/im.exec(one.source)?.[1]}: ${/^subject: (.*)$/im.exec(one.source)?.[1]}`, one.at)
    for (const line of readText(one).split('\n')) note(`         | ${line}`)
  }
  const { lines } = await installation.slipway(['incidents', 'list'])
  for (const line of lines) note(JSON.stringify(line))
  check('she is told without having set up anything', Boolean(isTold))
  check('and of the end', Boolean(isEnded))
  const texts = mails.map(readText).join('\n')
  check('she is told that memory is the reason', /memory_limit_mb of 256/.test(texts))
  check('she sees the error of the crash', texts.includes('TypeError: Cannot read properties of undefined'))
}
