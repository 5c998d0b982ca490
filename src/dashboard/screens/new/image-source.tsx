// An image of a registry, by its name.
import { useEffect, useState } from 'preact/hooks'
import { faultAt } from '../../api/faults.ts'
import { Card } from '../../parts/card.tsx'
import { Fields, TextField } from '../../parts/form.tsx'

const TYPING_MS = 300

type ImageProps = { image: string; faults: Map<string, string>; onChoose: (image: string) => void }
export function ImageSource({ image, faults, onChoose }: ImageProps) {
  const [typed, setTyped] = useState(image)
  useEffect(() => {
    if (typed === image) return
    const timer = setTimeout(() => onChoose(typed), TYPING_MS)
    return () => clearTimeout(timer)
  }, [typed])
  return (
    <Card title="Image">
      <Fields>
        <TextField
          wide
          mono
          label="Image"
          placeholder="registry.example.com/acme/shop:1.4.2"
          value={typed}
          onChange={setTyped}
          fault={image ? (faultAt(faults, 'source_revision_config.image_uri') ?? faults.get('source')) : undefined}
          hint="With the registry, and a tag or digest. The application must listen on the port in PORT. Configure
          logins for private registries on the agent."
        />
      </Fields>
    </Card>
  )
}
