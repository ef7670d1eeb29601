-- Binary trees with different lifetimes, strings that are built up, and tables used as sets and as
-- lists. Prints the results; everything follows from the numbers below.
local depth = @AMOUNT@

local function tree(levels)
  if levels == 0 then return {} end
  return { tree(levels - 1), tree(levels - 1) }
end

local function count(node)
  if not node[1] then return 1 end
  return 1 + count(node[1]) + count(node[2])
end

local long_lived = tree(depth)
local nodes = 0
for levels = 4, depth, 2 do
  for _ = 1, 1 << (depth - levels + 2) do
    nodes = nodes + count(tree(levels))
  end
end

local state = 7
local function draw(limit)
  state = (state * 1103515245 + 12345) & 0x7fffffff
  return (state >> 8) % limit
end

local words, lines, letters = {}, {}, 0
for turn = 1, 1 << depth do
  local word = ("stone %d of %d"):format(turn, draw(1000)):rep(1 + draw(6), " ")
  letters = letters + #word
  words[word:sub(1, 12)] = word
  lines[#lines + 1] = word:upper()
  if #lines == 500 then
    letters = letters + #table.concat(lines, "\n")
    lines = {}
  end
end

local kept = 0
for _ in pairs(words) do kept = kept + 1 end
print(("%d nodes, %d long-lived, %d letters, %d words"):format(
  nodes, count(long_lived), letters, kept))
