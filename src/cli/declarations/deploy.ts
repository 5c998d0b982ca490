// Commands that deploy, and that link a folder to a deployment.
import type { DeployOptions } from '../commands/deploy.ts'
import { type Declare, withFollow } from '../declaration.ts'

const load = () => import('../commands/deploy.ts')
const loadLinks = () => import('../commands/links.ts')

export function declareDeploy({ program, command, globals, section }: Declare): void {
  section('Deploy:')
  withFollow(
    command<DeployOptions>(
      program,
      'deploy [folder]',
      'deploy a folder, and follow it to its URL',
      async (session, options, [folder]) => (await load()).deployFolder(session, folder ?? '.', options),
    ),
  )
    .option('--name <name>', 'the deployment. Default: the linked one, or the name in package.json or of the folder')
    .option('--create', 'create the deployment if there is none, without a terminal too')
    .option('--dry-run', 'list the files and their size, and send nothing')
  command<DeployOptions>(
    program,
    'plan [folder]',
    'show what a deploy would change',
    async (session, options, [folder]) => (await load()).planFolder(session, folder ?? '.', options),
  )
    .option('--name <name>', 'the deployment')
    .option('--exit-code', 'exit with 10 if there are changes')
  command(program, 'link <deployment>', 'link this folder to a deployment', async (session, _, [name]) =>
    (await loadLinks()).linkFolder(session, name!),
  )
  program
    .command('unlink')
    .description('unlink this folder')
    .action(async () => (await loadLinks()).unlinkFolder(globals()))
}
