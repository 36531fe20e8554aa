#include "TestSupport.h"

#include "support/text/Json.h"

#include <cmath>

namespace kiln {
namespace {

std::string place(Location loc) { return formatv("{0}:{1}", loc.line, loc.column).str(); }

class JsonTest : public testing::Test {
protected:
  Expected<JsonObject> parse(StringRef text) { return parseJsonObject(sources.add("a.json", text.str())); }

  SourceManager sources;
};

TEST_F(JsonTest, MembersKnowTheirPlaceAndKeepDuplicates) {
  JsonObject object = unwrap(parse("{\n \"a\" : [1, {\"x\": \"}\"}],\n \"b\\\"]\": {\"a\": 2}, \"a\":null}"));
  ASSERT_EQ(object.members.size(), 3u);
  EXPECT_EQ(object.members[0].key, "a");
  EXPECT_EQ(place(object.members[0].keyLoc), "2:2");
  EXPECT_EQ(place(object.members[0].valueLoc), "2:8");
  EXPECT_EQ(object.members[1].key, "b\"]");
  EXPECT_EQ(place(object.members[1].valueLoc), "3:10");
  EXPECT_EQ(object.members[2].key, "a");
  EXPECT_EQ(place(object.members[2].keyLoc), "3:20");
  EXPECT_EQ(place(object.valueLoc("a")), "2:8");
  EXPECT_EQ(place(object.valueLoc("missing")), "1:1");
}

TEST_F(JsonTest, ChildrenKnowTheirPlace) {
  JsonObject object = unwrap(parse("{\"a\": {\n  \"b\": {}, \"b\": [ ] },\n \"l\": [1,\n [2, 3] , \"x\"]}"));
  JsonObject child = unwrap(childObject(object, object.members[0]));
  ASSERT_EQ(child.members.size(), 2u);
  EXPECT_EQ(place(child.members[0].keyLoc), "2:3");
  EXPECT_EQ(place(child.members[1].valueLoc), "2:17");
  EXPECT_TRUE(unwrap(childObject(child, child.members[0])).members.empty());
  EXPECT_EQ(messageOf(childObject(child, child.members[1])), "a.json:2:17: error: b: expected an object\n");

  std::vector<Location> locs = elementLocs(object, object.members[1]);
  ASSERT_EQ(locs.size(), 3u);
  EXPECT_EQ(place(locs[0]), "3:8");
  EXPECT_EQ(place(locs[1]), "4:2");
  EXPECT_EQ(place(locs[2]), "4:11");
  EXPECT_TRUE(elementLocs(object, object.members[0]).empty());
  EXPECT_TRUE(elementLocs(child, child.members[1]).empty());
}

TEST_F(JsonTest, ErrorsHaveAPlace) {
  EXPECT_EQ(messageOf(parse("[1]")), "a.json:1:1: error: expected a JSON object\n");
  EXPECT_TRUE(StringRef(messageOf(parse("{\"a\": 1,\n \"b\" 2}"))).starts_with("a.json:2:"));
  EXPECT_TRUE(StringRef(messageOf(parse("{\"a\": \"\xff\"}"))).contains("utf-8"));
  EXPECT_TRUE(StringRef(messageOf(parse(""))).contains("not valid JSON"));
}

TEST_F(JsonTest, DeepNestingIsAnErrorAndNoCrash) {
  EXPECT_EQ(messageOf(parse("{\"a\":" + std::string(1000000, '['))),
            "a.json:1:69: error: expected at most 64 nested JSON values\n");
  unwrap(parse("{\"a\":" + std::string(63, '[') + std::string(63, ']') + "}"));
  unwrap(parse("{\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\": 1}"));
}

TEST_F(JsonTest, NumbersAreWrittenWithAsFewDigitsAsReadBack) {
  EXPECT_EQ(jsonText(json::Array{0.1, 28.704972, 1e-5, 1e300, -0.0, 64.0, 2.5, 1.0 / 3}),
            "[0.1,28.704972,1e-05,1e+300,-0,64,2.5,0.3333333333333333]");
  EXPECT_EQ(jsonText(json::Array{INT64_MIN, UINT64_MAX, INFINITY, NAN}),
            "[-9223372036854775808,18446744073709551615,null,null]");
  EXPECT_EQ(jsonText(json::Array{jsonFloat(0.1F), jsonFloat(-3.4028235e38F), jsonFloat(1e-45F), jsonFloat(-INFINITY)}),
            "[0.1,-3.4028235e+38,1e-45,null]");
  EXPECT_EQ(jsonText(json::Array{jsonQuantity(16.039669000000002), jsonQuantity(0.1 + 0.2), jsonQuantity(2.0 / 3e9)}),
            "[16.039669,0.3,6.66666666667e-10]");
}

TEST_F(JsonTest, WritingIsTheInverseOfReading) {
  StringRef text = R"({"":null,"a\"\n":[true,false,{}],"b":{"x":[],"y":"\u00e9"}})";
  json::Value value = unwrap(json::parse(text));
  EXPECT_EQ(jsonText(value), R"({"":null,"a\"\n":[true,false,{}],"b":{"x":[],"y":"é"}})");
  EXPECT_EQ(unwrap(json::parse(jsonText(value))), value);
}

} // namespace
} // namespace kiln
