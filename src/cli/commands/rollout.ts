// `slipway rollout`: shows or sets the steps of later revisions, and moves the one in flight.
import type { Declaration } from '../declaration.ts'
import { readDocumentFiles } from '../document-files.ts'
import { usageError } from '../failure.ts'
import { collect } from '../flags.ts'
import { describeFailure, describePolicy, describeProgress } from '../rollout-lines.ts'
import { EXAMPLE, GATE_FLAGS, type GateFlags, parseGates, parseStep } from '../rollout-words.ts'
import { readSecret } from '../secret-input.ts'
import { confirm, type Deployment, findRevision, type Session } from '../session.ts'
import { readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment] [share=time...]',
  summary: 'give later revisions their requests by steps, such as 1=10m 10=10m:500 50=1h',
  description:
    'Gives each later revision its requests by steps: `10=10m:500` is 10 percent, for 10 minutes and 500 requests at ' +
    'least. At each step it is judged against the revision that serves, and sent back if a gate fails. Without ' +
    'steps and options, shows where it is.',
  options: command =>
    command
      .option('--errors <percent>', 'go back if so many more in a hundred requests fail, or off')
      .option('--latency <percent>', 'go back if so many more in a hundred requests are slow, or off')
      .option('--restarts <number>', 'go back if its copies restart more often, or off')
      .option('--score <key=margin>', 'go back if this feedback is worse by so much, or off. Can be repeated', collect)
      .option('--webhook <url>', 'ask this URL at the end of each step, or off')
      .option('--webhook-secret-file <file>', 'signs the questions, or - for standard input')
      .option('-f, --file <path>', 'the whole policy: steps and gates in YAML or JSON, or - for standard input')
      .option('--pause', 'stay at this step')
      .option('--resume', 'go on')
      .option('--promote', 'give it all requests now')
      .option('--abort', 'send all requests back, and end it')
      .option('--off', 'later revisions take all requests at once'),
}

const ACTIONS = ['pause', 'resume', 'promote', 'abort', 'off'] as const
type Action = (typeof ACTIONS)[number]
type Flags = GateFlags & { webhookSecretFile?: string; file?: string } & { [A in Action]?: boolean }

export async function run(session: Session, flags: Flags, [first, ...more]: (string | undefined)[]): Promise<void> {
  // Without a name, the first of several is a step.
  const [name, words] = first?.includes('=') ? [undefined, [first, ...more]] : [first, more]
  const actions = ACTIONS.filter(action => flags[action])
  const hasGates = flags.webhookSecretFile !== undefined || GATE_FLAGS.some(flag => flags[flag] !== undefined)
  const kinds = [
    ...actions,
    ...(flags.file === undefined ? [] : ['file']),
    ...(words.length > 0 || hasGates ? ['steps'] : []),
  ]
  if (kinds.length > 1)
    throw usageError(
      'Give steps and gates, --file, or one of --pause, --resume, --promote, --abort and --off.',
      EXAMPLE,
    )
  const [action] = actions
  if (action) return move(session, name, action)
  const { deployment, etag } = await readDeployment(session, name)
  if (kinds.length === 0) return show(session, deployment)
  const body =
    flags.file === undefined
      ? await policyOf(session, deployment, words as string[], flags)
      : await readPolicy(flags.file)
  const { client, signal } = session
  const params = { deployment_id: deployment.id }
  const headers = { 'If-Match': etag }
  const changed = await client.call('PUT /v2/deployments/{deployment_id}/rollout', { params, body, headers, signal })
  await show(session, changed, false)
}

async function policyOf({ out }: Session, { rollout, name }: Deployment, words: string[], flags: Flags) {
  const steps = words.length > 0 ? words.map(parseStep) : rollout?.steps
  if (!steps) throw usageError(`${name} has no rollout yet. Give its steps, too.`, EXAMPLE)
  const source = { file: flags.webhookSecretFile, isInteractive: out.isInteractive }
  return { steps, gates: parseGates(flags, rollout?.gates, await readSecret('The secret of the webhook', source)) }
}

type Policy = Awaited<ReturnType<typeof policyOf>>
/** Its members are checked by the API, which names all faults at once. */
async function readPolicy(path: string): Promise<Policy> {
  const { documents, faults } = await readDocumentFiles([path])
  const [fault] = faults
  if (fault) throw usageError(`${fault.file}:${fault.line ?? 1} ${fault.message}.`, EXAMPLE)
  if (documents.length === 1) return documents[0]!.value as Policy
  throw usageError(`${path} has ${documents.length} documents, and a policy is one.`, EXAMPLE)
}

const QUESTIONS: Partial<Record<Action, string>> = {
  promote: 'Give all requests to the revision in flight of',
  abort: 'Send all requests back, and end the revision in flight of',
}

async function move(session: Session, name: string | undefined, action: Action): Promise<void> {
  const { client, signal } = session
  const { deployment, etag } = await readDeployment(session, name)
  const question = QUESTIONS[action]
  if (question)
    await confirm(session, `${question} ${deployment.name}?`, `slipway rollout ${deployment.name} --${action} --yes`)
  const headers = { 'If-Match': etag }
  const params = { deployment_id: deployment.id }
  const moved =
    action === 'off'
      ? await client.call('DELETE /v2/deployments/{deployment_id}/rollout', { params, headers, signal })
      : await client.call('POST /v2/deployments/{deployment_id}/rollout/{action}', {
          params: { ...params, action },
          headers,
          signal,
        })
  await show(session, moved, false)
}

/** After a change people read that, without the evidence of the revision that failed before. */
async function show(session: Session, deployment: Deployment, hasEvidence = true): Promise<void> {
  const { rollout, rollout_progress: progress, hold, name } = deployment
  const failedId = hold?.reason === 'rollout_failed' && !progress ? hold.revision_id : undefined
  const aboutId = progress?.revision_id ?? failedId
  const revision = aboutId === undefined ? undefined : await findRevision(session, deployment, aboutId)
  const failure = (failedId && revision?.rollout?.failure) || null
  session.out.emit({ name, rollout, rollout_progress: progress, revision: revision?.number ?? null, failure }, () =>
    [
      ...(rollout ? describePolicy(rollout) : [`Later revisions of ${name} take all requests once they are healthy.`]),
      ...(progress && revision ? describeProgress(progress, revision.number) : []),
      ...(failure && revision
        ? [
            ...(hasEvidence ? describeFailure(failure, revision.number) : []),
            `Hold      automatic deploys are held. Release them with: slipway release ${name}`,
          ]
        : []),
    ].join('\n'),
  )
}
