-- Health of a Rollout for Argo CD: resource.customizations.health.rollouts.kruise.io_Rollout.
local generation = obj.metadata.generation or 0
local status = obj.status or {}

if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "the workload is being handed back" }
end
if status.phase == nil or (status.observedGeneration or 0) < generation then
  return { status = "Progressing", message = "waiting for the controller" }
end

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end
local function is(kind)
  return conditions[kind] ~= nil and conditions[kind].status == "True"
end

if is("Stalled") then
  return { status = "Degraded", message = conditions.Stalled.message or status.message }
end
if obj.spec.disabled then
  return { status = "Suspended", message = "spec.disabled is set: updates are not held" }
end
if obj.spec.strategy ~= nil and obj.spec.strategy.paused and status.phase == "Progressing" then
  return { status = "Suspended", message = status.message or "spec.strategy.paused is set" }
end

-- A pause that ends by itself is progress; one that ends by an approval waits for a person.
local sub = status.canaryStatus or status.blueGreenStatus or {}
if status.phase == "Progressing" and sub.currentStepState == "StepPaused" then
  local strategy = obj.spec.strategy.canary or obj.spec.strategy.blueGreen or {}
  local step = (strategy.steps or {})[sub.currentStepIndex or 0] or {}
  if (step.pause or {}).duration == nil then
    return { status = "Suspended", message = status.message or "waiting for approval" }
  end
end

if status.phase == "Healthy" then
  return { status = "Healthy", message = status.message }
end
if status.phase == "Disabled" then
  return { status = "Degraded", message = status.message }
end
return { status = "Progressing", message = status.message or status.phase }
