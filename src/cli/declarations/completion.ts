// Completion in shells.
import type { Declare } from '../declaration.ts'

const load = () => import('../commands/completion.ts')

export function declareCompletion({ program, section }: Declare): void {
  section('Shell:')
  program
    .command('completion <shell>')
    .summary('print the completion script of a shell')
    .description('print the completion script of bash, zsh or fish. Use it with: source <(slipway completion bash)')
    .action(async shell => (await load()).printCompletion(shell))
  program
    .command('__complete [words...]', { hidden: true })
    .action(async words => (await load()).complete(program, words))
}
