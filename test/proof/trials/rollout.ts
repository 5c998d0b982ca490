// Rollouts by steps: simulated ones by the thousand, and bad and good revisions on one machine under a steady load.
// `--good=100` rolls out so many good ones, `--rate=60` sends so many requests a second, `--part=errors` runs one part.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { check, note, optionOf, runTrial } from '../support/trial.ts'
import { until } from '../support/two-hosts.ts'
import { GOOD, type Kind, startClients, writeRevision } from './rollout/application.ts'
import { SCORE, startJudge } from './rollout/scores.ts'
import { simulateErrors, simulateLatency, simulateScores } from './rollout/simulation.ts'
import { type Installation, startInstallation } from './whole-application/installation.ts'

const GOOD_ONES = Number(optionOf('good') ?? 5)
const RATE = Number(optionOf('rate') ?? 60)
const SIMULATED = Number(optionOf('simulated') ?? 300)
const part = optionOf('part')
const isWanted = (name: string) => !part || part === name

const STEPS = ['10=5s:60', '50=5s:200']
/** From the verdict to the last request that the revision gets. Scores are judged by the control plane. */
const BACK_MS = { agent: 1_000, control_plane: 5_000 }
const PATIENCE_MS = 300_000

const BAD: Record<string, Kind> = {
  errors: { ...GOOD, name: '5 % errors', errors: 0.05 },
  latency: { ...GOOD, name: '+50 % latency', factor: 1.5 },
  scores: { ...GOOD, name: 'worse answers', score: 0.5 },
}

type Shop = { installation: Installation; id: string; clients: ReturnType<typeof startClients> }
// biome-ignore lint/suspicious/noExplicitAny: answers of the API, of which the trial reads a few members
type Answer = any

const read = async ({ installation, id }: Shop): Promise<Answer> =>
  (await installation.api('GET', `/v2/deployments/${id}`)).body
const readRevision = async ({ installation, id }: Shop, revision: string): Promise<Answer> =>
  (await installation.api('GET', `/v2/deployments/${id}/revisions/${revision}`)).body

async function slipway({ slipway }: Installation, args: string[]) {
  const { code, lines, errors } = await slipway(args)
  if (code !== 0) throw new Error(`slipway ${args.join(' ')} ended with ${code}: ${errors}`)
  return lines
}

let revisions = 0
/** Returns once the revision has its first share. */
async function deploy(shop: Pick<Shop, 'installation'>, kind: Kind): Promise<string> {
  const { installation } = shop
  const id = String(++revisions)
  await slipway(installation, ['deploy', writeRevision(installation.folder, kind, id), '--name', 'shop', '--yes'])
  return id
}

async function openShop(cleanup: AsyncDisposableStack): Promise<Shop> {
  const installation = await startInstallation(cleanup, 'process')
  const first = writeRevision(installation.folder, GOOD, String(++revisions))
  await slipway(installation, ['deploy', first, '--create', '--name', 'shop', '--yes'])
  const [status] = (await slipway(installation, ['status', 'shop'])) as Answer[]
  await slipway(installation, ['rollout', 'shop', ...STEPS])
  const clients = startClients(status.url, RATE)
  cleanup.defer(clients.end)
  return { installation, id: status.id, clients }
}

/** The time of the agent's verdict, which it writes down before it sends the requests back. */
async function watchVerdict({ installation, id }: Shop, over: AbortSignal): Promise<number | undefined> {
  const file = join(installation.agentHome, 'rollouts', `${id}.json`)
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end && !over.aborted; await delay(5)) {
    const written = statSync(file, { throwIfNoEntry: false })
    if (written) return written.mtimeMs
  }
  return undefined
}

/** Waits until the latest revision is deployed or has failed. */
async function waitForEnd(shop: Shop): Promise<Answer> {
  const { latest_revision_id } = await read(shop)
  const isEnded = async () => {
    const revision = await readRevision(shop, latest_revision_id)
    return ['DEPLOYED', 'DEPLOY_FAILED'].includes(revision.status) && revision
  }
  try {
    return await until('the revision ends', isEnded, PATIENCE_MS)
  } catch (error) {
    note(JSON.stringify((await read(shop)).rollout_progress))
    throw error
  }
}

async function catchBad(shop: Shop, kind: Kind, backMs = BACK_MS.agent): Promise<void> {
  const over = new AbortController()
  const verdict = watchVerdict(shop, over.signal)
  const number = await deploy(shop, kind)
  const ended = await waitForEnd(shop)
  // Requests that are on their way.
  await delay(2_000)
  over.abort()
  const hurt = shop.clients.seen.filter(({ revision }) => revision === number)
  const failed = hurt.filter(({ status }) => status >= 500).length
  const { failure } = ended.rollout ?? {}
  check(`${kind.name}: it is sent back`, ended.status === 'DEPLOY_FAILED' && failure != null, ended.status)
  if (!failure) return
  note(`${kind.name}: ${failure.message}`)
  note(`${kind.name}: it got ${hurt.length} requests, ${failed} of them ended with 500, at ${failure.share} %`)
  const judgedAt = (await verdict) ?? Date.parse(failure.at)
  const lateMs = Math.max(...hurt.map(({ sentAt }) => sentAt)) - judgedAt
  note(`${kind.name}: from the verdict to its last request ${Math.round(lateMs)} ms`)
  check(`${kind.name}: no request ${backMs} ms after the verdict`, lateMs <= backMs, `${Math.round(lateMs)} ms`)
  check(
    `${kind.name}: the evidence is kept`,
    failure.gates.some(({ verdict }: Answer) => verdict === 'failed'),
  )
  const { hold } = await read(shop)
  check(`${kind.name}: automatic deploys are held`, hold?.reason === 'rollout_failed')
  await slipway(shop.installation, ['release', 'shop', '--yes'])
}

async function promoteGood(shop: Shop): Promise<void> {
  let alarms = 0
  let promoted = 0
  for (let i = 0; i < GOOD_ONES; i++) {
    await deploy(shop, GOOD)
    const { status, rollout } = await waitForEnd(shop)
    if (status === 'DEPLOYED') promoted++
    else alarms++
    if (rollout?.failure) note(`false alarm: ${rollout.failure.message}`)
  }
  note(`${promoted} of ${GOOD_ONES} good revisions were promoted, ${alarms} false alarms`)
  check('each good revision is promoted', promoted === GOOD_ONES)
}

/** Its errors and times are those of a good one. Only the judge of its answers sees a difference. */
async function catchByScores(shop: Shop): Promise<void> {
  const { installation } = shop
  await slipway(installation, ['rollout', 'shop', '50=10m', '--score', `${SCORE}=0.05`])
  const judge = await startJudge(installation, 'shop')
  try {
    await catchBad(shop, BAD.scores!, BACK_MS.control_plane)
  } finally {
    await judge.end()
    await slipway(installation, ['rollout', 'shop', ...STEPS, '--score', 'off'])
  }
}

await runTrial(async () => {
  if (isWanted('simulation')) {
    simulateErrors(SIMULATED)
    simulateLatency(SIMULATED)
    simulateScores(SIMULATED)
  }
  if (part === 'simulation') return
  await using cleanup = new AsyncDisposableStack()
  const shop = await openShop(cleanup)
  if (isWanted('good')) await promoteGood(shop)
  if (isWanted('errors')) await catchBad(shop, BAD.errors!)
  if (isWanted('latency')) await catchBad(shop, BAD.latency!)
  if (isWanted('scores')) await catchByScores(shop)
  const unanswered = shop.clients.failures()
  check('each request is answered', unanswered === 0, `${unanswered} are not`)
})
