// Commands that change a deployment.
import type { ChangeFlags } from '../commands/change.ts'
import { type Declare, withFollow } from '../declaration.ts'

const load = () => import('../commands/change.ts')
const loadEnv = () => import('../commands/env.ts')
const loadPreviews = () => import('../commands/previews.ts')

export function declareChange({ program, command, commandOfDeployment, group, section }: Declare): void {
  section('Change:')
  withFollow(
    commandOfDeployment<ChangeFlags & { releaseOnNewerCommit?: boolean }>(
      program,
      'rollback <revision>',
      'roll back to a revision, by number or id',
      async (session, options, name, [revision]) => (await load()).rollBack(session, name, revision!, options),
    ).option('--release-on-newer-commit', 'let a newer commit end the hold'),
  )
  command(program, 'interrupt <deployment> [revision]', 'interrupt a revision', async (session, _, [name, revision]) =>
    (await load()).interrupt(session, name!, revision),
  )
  command(program, 'release [deployment]', 'release the hold of a rollback', async (session, _, [name]) =>
    (await load()).releaseHold(session, name),
  )
  command(program, 'delete <deployment>', 'delete a deployment', async (session, _, [name]) =>
    (await load()).deleteDeployment(session, name!),
  )
  const env = group('env', 'the variables of a deployment')
  command(env, 'list [deployment]', 'list their names', async (session, _, [name]) =>
    (await loadEnv()).listVariables(session, name),
  )
  withFollow(
    commandOfDeployment<ChangeFlags>(
      env,
      'set <name>',
      'set one, read from stdin or a hidden prompt',
      async (session, options, name, [variable]) => (await loadEnv()).setVariable(session, name, variable!, options),
    ),
  )
  withFollow(
    commandOfDeployment<ChangeFlags>(
      env,
      'unset <names...>',
      'remove some',
      async (session, options, name, variables) => (await loadEnv()).unsetVariables(session, name, variables, options),
    ),
  )
  withFollow(
    commandOfDeployment<ChangeFlags>(
      env,
      'import <file>',
      'add or replace those of a .env file, or - for stdin',
      async (session, options, name, [file]) => (await loadEnv()).importVariables(session, name, file!, options),
    ),
  )
  withFollow(
    command<ChangeFlags & { reveal?: boolean }>(
      env,
      'edit [deployment]',
      'edit them in $VISUAL or $EDITOR',
      async (session, options, [name]) => (await loadEnv()).editVariables(session, name, options),
    ),
  ).option('--reveal', 'with their values; requires secrets:read, and is journaled')
  const previews = group('previews', 'the previews of pull requests')
  command(previews, 'list [deployment]', 'list them', async (session, _, [name]) =>
    (await loadPreviews()).listPreviews(session, name),
  )
  commandOfDeployment(
    previews,
    'approve <number>',
    'approve the commit of a fork',
    async (session, _, name, [number]) => (await loadPreviews()).approvePreview(session, name, number!),
  )
}
