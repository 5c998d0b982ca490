import { describe, expect, it } from 'vitest'
import type { TemplateFormat } from '../../../src/tracing/rules/evaluators.schema.ts'
import { createReader, listMissing, pathOf } from '../../../src/tracing/rules/run-variables.ts'
import { listVariables, parseTemplate, renderTemplate } from '../../../src/tracing/runs/prompt-template.ts'

const RUN = {
  name: 'answer',
  run_type: 'chain',
  session_id: '',
  error: null,
  reference: '{"answer":"Paris"}',
  metadata: '{"user":"u1"}',
  inputs: '{"question":"Where?","messages":[{"role":"user","content":"Hi"},{"role":"user","content":"<b>{{output}}"}]}',
  outputs: '{"answer":"Paris","score":12}',
}
const render = (text: string, format: TemplateFormat = 'mustache', mapping = {}) =>
  renderTemplate(parseTemplate(text, format), createReader(RUN, mapping))

describe('a template', () => {
  it.each<[TemplateFormat, string, string]>([
    ['mustache', 'Q: {{input.question}} A: {{ output.answer }}', 'Q: Where? A: Paris'],
    ['mustache', '{{{outputs.answer}}}{{&output.score}}', 'Paris12'],
    ['mustache', '{{output}}', '{"answer":"Paris","score":12}'],
    ['mustache', '{{input.messages.0.content}}', 'Hi'],
    // The text of a run is no template.
    ['mustache', '{{input.messages.1.content}}', '<b>{{output}}'],
    [
      'mustache',
      '{{#input.messages}}[{{role}}: {{content}} of {{name}}]{{/input.messages}}',
      '[user: Hi of answer][user: <b>{{output}} of answer]',
    ],
    ['mustache', '{{^error}}fine{{/error}}{{#error}}bad{{/error}}', 'fine'],
    ['mustache', '{{! a comment }}{{error}}{{reference.answer}}{{metadata.user}}', 'Parisu1'],
    ['mustache', 'A brace } and a { stay', 'A brace } and a { stay'],
    ['f-string', '{input.question} is {{json}}', 'Where? is {json}'],
    ['f-string', '{name} {run_type}', 'answer chain'],
  ])('in %s, %j is %j', (format, text, expected) => {
    expect(render(text, format)).toBe(expected)
  })

  it('takes its variables from the mapping first', () => {
    const mapping = { question: 'input.messages[0].content', output: 'output.answer', ref: 'reference' }
    expect(render('{question}|{output}|{ref.answer}', 'f-string', mapping)).toBe('Hi|Paris|Paris')
    expect([pathOf('ref.answer', mapping), pathOf('other', mapping), pathOf('toString', {})]).toEqual([
      'reference.answer',
      undefined,
      undefined,
    ])
  })

  it('has the variables that a run must have, without those of sections', () => {
    const parts = parseTemplate('{{input.a}} {{error}} {{#outputs}}{{b}}{{/outputs}} {{input.question}}', 'mustache')
    const { required, sections } = listVariables(parts)
    expect({ required, sections }).toEqual({ required: ['input.a', 'error', 'input.question'], sections: ['outputs'] })
    expect(listMissing(required, {}, createReader(RUN, {}))).toEqual(['input.a'])
  })

  it('ends, although sections repeat each other and names are repeated', () => {
    const run = {
      ...RUN,
      inputs: JSON.stringify({ a: Array(300).fill('x') }),
      outputs: JSON.stringify('y'.repeat(90_000)),
    }
    const nested = `${'{{#input.a}}'.repeat(9)}{{.}}${'{{/input.a}}'.repeat(9)}`
    for (const text of [nested, '{{output}}'.repeat(2000), `{{#input.a}}{{output}}{{/input.a}}`])
      expect(renderTemplate(parseTemplate(text, 'mustache'), createReader(run, {})).length).toBeLessThanOrEqual(
        1_000_000,
      )
  })

  it('cuts the middle of a text that is too long for a model', () => {
    const long = { ...RUN, outputs: JSON.stringify({ answer: `a${'x'.repeat(150_000)}z` }) }
    const text = renderTemplate(parseTemplate('{{output.answer}}', 'mustache'), createReader(long, {}))
    expect(text).toMatch(/^ax+\n\[50002 characters are left out\]\nx+z$/)
  })

  it.each<[TemplateFormat, string]>([
    ['mustache', '{{input'],
    ['mustache', '{{#input}}'],
    ['mustache', '{{/input}}'],
    ['mustache', '{{#a}}{{/b}}'],
    ['mustache', '{{> partial}}'],
    ['mustache', '{{=<% %>=}}'],
    ['mustache', '{{in put}}'],
    ['mustache', '{{}}'],
    ['mustache', '{{#a}}'.repeat(11) + '{{/a}}'.repeat(11)],
    ['f-string', 'a { b'],
    ['f-string', 'a } b'],
    ['f-string', '{a!r}'],
    ['f-string', '{a:>10}'],
    ['f-string', '{}'],
  ])('in %s, %j is refused', (format, text) => {
    expect(() => parseTemplate(text, format)).toThrow()
  })
})
