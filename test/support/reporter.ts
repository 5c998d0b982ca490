// Ends a run with one plain line that a script can read, below what else of it somebody should see.
import { relative } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'

export default class PlainTotals implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]) {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 }
    const lines: string[] = []
    let broken = unhandled.length
    for (const module of modules) {
      broken += module.errors().length
      for (const test of module.children.allTests()) {
        const { state, errors } = test.result()
        count[state]++
        // Its failure is no less true for being seen once.
        if (test.diagnostic()?.flaky)
          lines.push(
            `passed when tried again: ${relative('', module.moduleId)} > ${test.fullName}: ${errors?.[0]?.message.split('\n')[0]}`,
          )
      }
    }
    // Among what failed, as a run with such an error has.
    if (broken) lines.push(`errors outside of tests: ${broken}`)
    const skipped = count.skipped ? `, ${count.skipped} skipped` : ''
    lines.push(`${count.passed} passed, ${count.failed + broken} failed${skipped}`)
    // After the default reporter's own summary.
    process.once('exit', () => process.stdout.write(`\n${lines.join('\n')}\n`))
  }
}
