// `slipway deploy`: from a source to a URL.
import { noteIfNobodyIsTold } from '../alerts.ts'
import { applyAndFollow, planAndApply, showPlan } from '../change.ts'
import { findComposeFile } from '../compose/find-compose.ts'
import type { Declaration } from '../declaration.ts'
import {
  findTarget,
  linkFolder,
  openSource,
  planCreation,
  planPatch,
  type SourceFlags,
  showBuildPlan,
  type Target,
  withSource,
} from '../deploy-plan.ts'
import { type DeploySource, type NewDeployment, planNew, type Variable } from '../deploy-source.ts'
import { type EnvironmentFlags, readVariables } from '../environment-flags.ts'
import { shellWord, usageError } from '../failure.ts'
import { collect, type FollowFlags, repeatOptions, withFollow } from '../flags.ts'
import { parseTimeout } from '../follow.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[folder]',
  summary: 'deploy a folder, a compose file or another source, and follow it to its URL',
  options: command =>
    withFollow(withSource(command))
      .option('--env <name>', 'set a variable: NAME asks for its value, NAME=VALUE has it. Can be repeated', collect)
      .option('--secrets-file <file>', 'set the variables of a .env file, or of - for stdin. Can be repeated', collect)
      .option('--env-file <file>', 'the same as --secrets-file; Node reads such a file too', collect)
      .option('--create', 'create the deployment if there is none, without a terminal too')
      .option('--dry-run', 'list the files of the folder and their size, and send nothing'),
}

type Flags = SourceFlags & FollowFlags & EnvironmentFlags & { create?: boolean }

/** A next command has these as they were given. */
const REPEATED = ['database', 'attach-database', 'redis', 'disk', 'env', 'secrets-file', 'env-file']

export async function run(session: Session, options: Flags, [folder]: [string?]): Promise<void> {
  const follow = { detach: options.detach === true, timeoutMs: parseTimeout(options.timeout) }
  const compose = findComposeFile(folder ?? '.', options)
  if (compose !== undefined) {
    if (options.env ?? options.secretsFile ?? options.envFile)
      throw usageError('A compose file has its own variables: set them in its `environment` or `env_file`.')
    const { deployCompose } = await import('../compose/deploy-compose.ts')
    return deployCompose(session, compose, { ...options, ...follow })
  }
  const opened = await openSource(session, folder, options)
  if (options.dryRun) return void opened.files?.showPlan()
  const source = { ...opened, argument: opened.argument + repeatOptions(options, REPEATED) }
  const target = await findTarget(session, source, options.name, options.create)
  const plan = await showBuildPlan(session, source, target)
  const given = await readVariables(session, options)
  const isGiven = (name: string) => given.some(one => one.name === name)
  const variables = [...(source.files?.variables ?? []).filter(({ name }) => !isGiven(name)), ...given]
  const next = `slipway deploy${source.argument} --name ${shellWord(target.name)} --yes`
  if (!target.deployment) {
    if (plan?.release?.includes('migrate') && !options.database && !isGiven('DATABASE_URL'))
      session.out.note('Its release command migrates a database. To give it one: --database')
    return deployNew(session, source, target.name, { ...follow, options, variables, next: `${next} --create` })
  }
  await confirmTarget(session, source, target, { next, hasVariables: variables.length > 0 })
  const planned = await planPatch(session, source, target.deployment, options, variables)
  await planAndApply(session, target.deployment, planned, { ...follow, next, isExpected: true })
}

type NewFlags = { detach: boolean; timeoutMs: number; next: string; options: Flags; variables: Variable[] }

/** One question. The files of a folder are uploaded after it, and the first revision has them. */
async function deployNew(
  session: Session,
  source: DeploySource,
  name: string,
  { next, options, variables, ...follow }: NewFlags,
): Promise<void> {
  const { client, signal } = session
  const planned = await planCreation(session, source, name, options, variables)
  // Its warning is that there is no archive yet, which this command brings.
  showPlan(session, source.files ? { ...planned.plan, warnings: [] } : planned.plan)
  await confirm(session, `Create ${name} and deploy ${source.label}?`, next, { byDefault: true })
  const { body, plan } = source.files ? await bringFiles(session, planned.body, source.files) : planned
  const create = async () => {
    const headers = { 'Plan-Digest': plan.plan_digest }
    const deployment = await client.call('POST /v2/deployments', { body, headers, signal })
    if (source.files) linkFolder(session, source.files.folder, deployment, source.files.sha256)
    return deployment
  }
  // Before the URL, which is the last line.
  await noteIfNobodyIsTold(session)
  await applyAndFollow(session, create, follow)
}

async function bringFiles(session: Session, body: NewDeployment, { upload }: NonNullable<DeploySource['files']>) {
  const source_tarball_path = await upload()
  const source_revision_config = { ...body.source_revision_config, source_tarball_path }
  return planNew(session, { ...body, source_revision_config })
}

async function confirmTarget(
  session: Session,
  source: DeploySource,
  { name, deployment, isGuessed, lastSha256 }: Target,
  { next, hasVariables }: { next: string; hasVariables: boolean },
): Promise<void> {
  if (isGuessed && source.files)
    await confirm(session, `${name} exists, and may come from another folder. Deploy this folder to it?`, next)
  const isSameArchive = lastSha256 !== undefined && lastSha256 === source.files?.sha256
  // After a failure, or with other variables, the same files are meant.
  const isRepeated = isSameArchive && !hasVariables && deployment?.serving === 'current'
  if (isRepeated && session.out.isInteractive)
    await confirm(session, 'The files are the same as in the last deploy. Deploy them again?', next)
}
