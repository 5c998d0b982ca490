// Configs that every project has, to start from.
import type { Config } from './configs.schema.ts'

const toConfig = (id: string, name: string, description: string, config: Config['config']): Config => ({
  id,
  name,
  description,
  config: { model: 'openai', ...config },
  prebuilt: true,
  schedule_cron: null,
  next_start_at: null,
  last_started_at: null,
  schedule_note: null,
})

export const PREBUILT_CONFIGS: Config[] = [
  toConfig('usage', 'What people ask for', 'Sorts conversations by what people want.', {
    name: 'What people ask for',
    summary_prompt: 'Say in one sentence what the person wants from the application.\n\n{{all_thread_messages}}',
  }),
  toConfig('failures', 'Where it fails', 'Sorts runs by what went wrong in them, and leaves out the others.', {
    name: 'Where it fails',
    summary_prompt:
      'Say in one sentence what went wrong: an error, a wrong or missing answer, a tool that failed.\n\n' +
      'Inputs: {{run.inputs}}\n\nOutputs: {{run.outputs}}\n\nError: {{run.error}}\n\nFeedback: {{run.feedback}}',
    attribute_schemas: {
      failed: { type: 'boolean', description: 'Whether something went wrong.', filter_by: true },
    },
  }),
  toConfig('words', 'What people ask for, by words', 'Groups runs by the words of their inputs, without a model.', {
    name: 'What people ask for, by words',
    model: 'none',
    summary_prompt: '{{run.inputs}}',
  }),
]
