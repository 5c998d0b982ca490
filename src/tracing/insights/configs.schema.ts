// Schemas of saved configs of insights, and of their schedules.
import * as z from 'zod'
import { boundedText, recordOf, Uuid } from '../../protocol/wire.ts'
import { ProjectRef } from '../projects/projects.schema.ts'
import { flag, storableText, Time } from '../runs/list-parameters.schema.ts'
import { SavedRequest } from './jobs.schema.ts'

export const ConfigRef = ProjectRef.extend({ config_id: Uuid })
export const ConfigQuery = z.object({
  include_prebuilts: flag(false).meta({ description: 'Also the configs that every project has.' }),
})

const Cron = boundedText(100).meta({
  description:
    'Five fields in UTC: `0 8 * * 1` is every Monday at 8. Its firings are at least ' +
    '`CLIO_SCHEDULE_MIN_INTERVAL_SECONDS` apart.',
})
const Description = storableText(10_000)

export const NewConfig = z
  .object({
    name: storableText(255).min(1),
    description: Description.nullish(),
    config: SavedRequest,
    schedule_cron: Cron.nullish(),
  })
  .meta({
    id: 'NewInsightConfig',
    example: { name: 'Every Monday', config: { model: 'none', last_n_hours: 168 }, schedule_cron: '0 8 * * 1' },
  })
export type NewConfig = z.output<typeof NewConfig>

export const ConfigPatch = z
  .object({
    name: storableText(255).min(1).nullish(),
    description: Description.nullish(),
    config: SavedRequest.nullish(),
    schedule_cron: Cron.nullish().meta({ description: 'Null or empty ends the schedule.' }),
  })
  .meta({
    id: 'InsightConfigPatch',
    description: 'Members that are absent stay as they are.',
    example: { schedule_cron: '0 8 * * *' },
  })
export type ConfigPatch = z.output<typeof ConfigPatch>

export const Config = z
  .object({
    id: z.string().meta({ description: 'A UUID, or the name of a prebuilt config.' }),
    name: z.string(),
    description: z.string().nullable(),
    config: SavedRequest,
    prebuilt: z.boolean(),
    schedule_cron: z.string().nullable(),
    next_start_at: Time.nullable().meta({ description: 'When the schedule starts the next job.' }),
    last_started_at: Time.nullable().meta({ description: 'The firing that its last job is of.' }),
    schedule_note: z
      .string()
      .nullable()
      .meta({ description: 'Says so where the installation starts jobs less often than the cron fires.' }),
  })
  .meta({ id: 'InsightConfig' })
export type Config = z.output<typeof Config>
export const ConfigList = z.object({ configs: z.array(Config) }).meta({ id: 'InsightConfigList' })

export const ConfigQuestion = z
  .object({
    user_context: recordOf(storableText(1000).min(1), storableText(10_000), 20),
    model: storableText(255).min(1).nullish(),
    cluster_model: storableText(255).min(1).nullish(),
    summary_model: storableText(255).min(1).nullish(),
  })
  .meta({
    id: 'InsightConfigQuestion',
    example: { user_context: { 'What would you like to learn about your agent?': 'Where does it fail?' } },
  })
export type ConfigQuestion = z.output<typeof ConfigQuestion>
export const GeneratedConfig = z
  .object({
    name: z.string().nullable(),
    summary_prompt: z.string(),
    attribute_schemas: z.record(z.string(), z.looseObject({})).nullable(),
  })
  .meta({ id: 'GeneratedInsightConfig', description: 'It is not saved.' })
