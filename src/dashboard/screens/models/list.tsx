// The models that the workspace can call.
import { usePages } from '../../api/queries.ts'
import { Icon } from '../../parts/icon.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { explainMissingManagement } from './actions.ts'
import { ModelsFrame } from './frame.tsx'
import { describePrices, PROVIDERS, stateOfModel } from './model-state.ts'

export default function ModelList({ workspace, me }: ScreenProps) {
  return (
    <ResourceList
      title="Models"
      thing="model"
      caption="Models, newest first"
      frame={parts => <ModelsFrame tab="" {...parts} />}
      query={usePages(workspace, 'GET /v1/model-configurations', { query: { limit: 100 } })}
      create={{ label: 'Create model', to: '/models/new', unavailable: explainMissingManagement(me, workspace) }}
      filter={{ by: 'name or URL', texts: one => [one.name, one.model, one.base_url] }}
      empty={{
        title: 'No models yet',
        text:
          'Applications and people call a model through this installation, without a key of its provider. Calls are ' +
          'counted, limited by budgets, and traced if you enable it.',
      }}
      columns={[
        {
          label: 'Name',
          width: '34%',
          icon: () => <Icon name="spark" />,
          to: ({ id }) => `/models/${id}`,
          name: model => model.name,
          detail: ({ model, provider }) => `${model} · ${PROVIDERS[provider]}`,
        },
        {
          label: 'Last test',
          width: '20%',
          cell: model => <StateLabel state={stateOfModel(model)} />,
          detail: ({ last_test }) => last_test && <Ago time={last_test.tested_at} suffix=" ago" />,
        },
        {
          label: 'Base URL',
          isWideOnly: true,
          cell: ({ base_url }) => <code title={base_url}>{base_url}</code>,
          detail: describePrices,
        },
        { label: 'Created', width: '96', isEnd: true, cell: ({ created_at }) => <Ago time={created_at} /> },
      ]}
    />
  )
}
