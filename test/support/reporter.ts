// Ends a run with one plain line that a script can read.
import type { Reporter, TestModule } from 'vitest/node'

export default class PlainTotals implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]) {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 }
    let broken = unhandled.length
    for (const module of modules) {
      broken += module.errors().length
      for (const test of module.children.allTests()) count[test.result().state]++
    }
    const skipped = count.skipped ? `, ${count.skipped} skipped` : ''
    // After the default reporter's own summary.
    process.once('exit', () =>
      process.stdout.write(`\n${count.passed} passed, ${count.failed + broken} failed${skipped}\n`),
    )
  }
}
