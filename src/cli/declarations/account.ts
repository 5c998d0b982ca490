// Commands about this machine and its key.
import type { Declare } from '../declaration.ts'

const load = () => import('../commands/account.ts')

export function declareAccount({ program, command, globals, section, signal }: Declare): void {
  section('Sign in:')
  program
    .command('login')
    .description('store an API key for this machine, after a check')
    .option('--url <url>', 'the address of the installation')
    .option('--workspace <id>', 'the workspace to act in, for a key of the organization')
    .option('--key-stdin', 'read the key from standard input')
    .action(async options => (await load()).logIn({ ...globals(), ...options }, signal))
  program
    .command('logout')
    .description('remove the stored API key from this machine')
    .action(async () => (await load()).logOut(globals()))
  command(program, 'whoami', 'show the installation and organization of the key', async session =>
    (await import('../commands/read.ts')).showWhoami(session),
  )
}
