// Commands about what a workspace is connected to: agents, API keys, OAuth providers, git hosts.
import type { CreateOptions as NewKeyOptions } from '../commands/keys.ts'
import type { KeyOptions, CreateOptions as NewListenerOptions } from '../commands/listeners.ts'
import type { DiscoverOptions } from '../commands/providers.ts'
import type { RepositoryOptions } from '../commands/repositories.ts'
import { collect, type Declare } from '../declaration.ts'

const loadKeys = () => import('../commands/keys.ts')
const loadListeners = () => import('../commands/listeners.ts')
const loadProviders = () => import('../commands/providers.ts')

export function declareConnections({ program, command, group, section }: Declare): void {
  section('Connect:')
  const providers = group('providers', 'OAuth providers of the organization')
  command(providers, 'list', 'list them', async session => (await loadProviders()).listProviders(session))
  command<DiscoverOptions>(
    providers,
    'discover <url>',
    'discover one from the URL of an MCP server',
    async (session, options, [url]) => (await loadProviders()).discoverProvider(session, url!, options),
  )
    .option('--id <name>', 'its name in URLs. Default: from the host')
    .option('--name <name>', 'its name for people. Default: its id')
    .option('--scope <scope>', 'a scope to use instead of those of the server. Can be repeated', collect)
    .option('--client-id <id>', 'a client that you registered there')
    .option('--client-secret', 'ask for its secret, or read it from stdin')
    .option('--client-secret-file <file>', 'a file with its secret, or - for stdin')
    .option('--registration <how>', 'given, metadata_document or dynamic. Default: the first possible')
    .option('--create', 'create it without asking')
  command(providers, 'delete <provider>', 'delete one, with its connections', async (session, _, [name]) =>
    (await loadProviders()).deleteProvider(session, name!),
  )

  command<RepositoryOptions>(
    program,
    'repos [integration]',
    'list the repositories of a git host',
    async (session, options, [integration]) =>
      (await import('../commands/repositories.ts')).listRepositories(session, integration, options),
  )
    .option('--filter <text>', 'only those with this text in their name')
    .option('--limit <number>', 'how many', '100')

  const listeners = group('listeners', 'your own machines and clusters, where agents run')
  command(listeners, 'list', 'list them', async session => (await loadListeners()).listListeners(session))
  const withKeyOptions = (one: ReturnType<typeof command>) =>
    one
      .option('--description <text>', 'what the key is for')
      .option('--expires-in <time>', 'how long the key is valid, such as 30d. Default: forever')
  withKeyOptions(
    command<NewListenerOptions>(
      listeners,
      'create <name>',
      'register one, and show the key of its agent',
      async (session, options, [name]) => (await loadListeners()).createListener(session, name!, options),
    )
      .option('--type <type>', 'local or k8s', 'local')
      .option('--namespace <name>', 'a namespace that deployments can use. Can be repeated', collect),
  )
  command(listeners, 'delete <listener>', 'delete one, with the keys of its agents', async (session, _, [name]) =>
    (await loadListeners()).deleteListener(session, name!),
  )
  withKeyOptions(
    command<KeyOptions>(listeners, 'key <listener>', 'show a new key for its agent', async (session, options, [name]) =>
      (await loadListeners()).createListenerKey(session, name!, options),
    ),
  )

  const keys = group('keys', 'API keys')
  const withScope = (one: ReturnType<typeof command>) => one.option('--organization', 'keys of the organization')
  withScope(
    command<NewKeyOptions>(keys, 'list', 'list them', async (session, options) =>
      (await loadKeys()).listKeys(session, options),
    ),
  )
  withScope(
    command<NewKeyOptions>(keys, 'create <description>', 'create one, and show it', async (session, options, [text]) =>
      (await loadKeys()).createKey(session, text!, options),
    ),
  )
    .option('--role <role>', 'by name or id. Default: the role of your key')
    .option('--permission <name>', 'limit it to this permission. Can be repeated', collect)
    .option('--expires-in <time>', 'how long it is valid, such as 30d. Default: forever')
  withScope(
    command<NewKeyOptions>(keys, 'revoke <key>', 'revoke one, by id or description', async (session, options, [key]) =>
      (await loadKeys()).revokeKey(session, key!, options),
    ),
  )
}
