// Commands that deploy, and that link a folder to a deployment.
import type { Command } from 'commander'
import type { DeployOptions } from '../commands/deploy.ts'
import type { InitOptions } from '../commands/init.ts'
import { type Declare, withFollow } from '../declaration.ts'

const load = () => import('../commands/deploy.ts')
const loadLinks = () => import('../commands/links.ts')

const withSource = (one: Command): Command =>
  one
    .option('--image <uri>', 'deploy this image')
    .option('--repo <repository>', 'deploy this repository of a connected git host, by URL or name')
    .option('--branch <branch>', 'its branch. Default: the one that is deployed, or the default branch')
    .option('--template <id>', 'deploy this template')
    .option('--name <name>', 'the deployment. Default: the linked one, or a name after the source')

export function declareDeploy({ program, command, globals, section }: Declare): void {
  section('Deploy:')
  withFollow(
    withSource(
      command<DeployOptions>(
        program,
        'deploy [folder]',
        'deploy a folder, or another source, and follow it to its URL',
        async (session, options, [folder]) => (await load()).deploy(session, folder, options),
      ),
    ),
  )
    .option('--create', 'create the deployment if there is none, without a terminal too')
    .option('--dry-run', 'list the files of the folder and their size, and send nothing')
  withSource(
    command<DeployOptions>(
      program,
      'plan [folder]',
      'show what a deploy would change',
      async (session, options, args) => (await load()).planDeploy(session, args[0], options),
    ),
  ).option('--exit-code', 'exit with 10 if there are changes')
  command<InitOptions>(
    program,
    'init [folder]',
    'prepare a folder for its first deploy, and create nothing elsewhere',
    async (session, options, [folder]) => (await import('../commands/init.ts')).prepareFolder(session, folder, options),
  )
    .option('--start <command>', 'what starts the application, for a folder that does not say so')
    .option('--name <name>', 'link the folder to this deployment')
  command(program, 'link <deployment>', 'link this folder to a deployment', async (session, _, [name]) =>
    (await loadLinks()).linkFolder(session, name!),
  )
  program
    .command('unlink')
    .description('unlink this folder')
    .action(async () => (await loadLinks()).unlinkFolder(globals()))
}
