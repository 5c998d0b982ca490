// Commands about this machine and its key.
import type { Declare } from '../declaration.ts'

const load = () => import('../commands/account.ts')

export function declareAccount({ program, command, globals, section, signal }: Declare): void {
  section('Sign in:')
  program
    .command('login')
    .description('get a key for this machine, which you approve in a browser')
    .option('--url <url>', 'the address of the installation')
    .option('--with-key', 'store an API key that you type instead')
    .option('--key-stdin', 'store an API key from standard input instead')
    .option('--oidc', 'get a key for the token of this CI job instead, for 15 minutes and renewed')
    .option('--audience <audience>', 'the audience of that token; the address of the installation by default')
    .option('--workspace <id>', 'the workspace to act in, for a key of the organization or of a CI job')
    .option('--no-browser', 'print the address only')
    .action(async options => (await load()).logIn({ ...globals(), ...options }, signal))
  program
    .command('logout')
    .description('remove the stored key from this machine, and revoke it if a login made it')
    .action(async () => (await load()).logOut(globals(), signal))
  command(program, 'whoami', 'show whose key this is, where it acts, and what it may do', async session =>
    (await load()).showWhoami(session),
  )
}
